{{- define "fairpool.name" -}}
{{- if eq .Release.Name "fairpool" -}}fairpool-control{{- else -}}{{ printf "%s-control" (.Release.Name | trunc 45 | trimSuffix "-") }}{{- end -}}
{{- end }}

{{- define "fairpool.selector" -}}
app.kubernetes.io/name: fairpool-control
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fairpool.labels" -}}
{{ include "fairpool.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: fairpool
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "fairpool.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "fairpool.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "fairpool.databaseSecret" -}}
{{- if eq .Values.database.mode "external" -}}{{ .Values.database.external.existingSecret }}{{- else -}}{{ include "fairpool.name" . }}-database{{- end -}}
{{- end }}

{{- define "fairpool.passwordSecret" -}}
{{- .Values.administrator.existingSecret | default (printf "%s-administrator" (include "fairpool.name" .)) -}}
{{- end }}

{{- define "fairpool.port" -}}
{{- .Values.service.port | default (ternary 443 80 .Values.tls.inPod) -}}
{{- end }}

{{- define "fairpool.url" -}}
{{- .Values.publicUrl | default (printf "https://%s" .Values.domain) -}}
{{- end }}

{{/* A value of a secret as it is in the cluster, or a new one at the first installation. */}}
{{- define "fairpool.kept" -}}
{{- $found := lookup "v1" "Secret" .namespace .secret -}}
{{- if and $found (hasKey $found "data") (hasKey $found.data .key) -}}{{ index $found.data .key | b64dec }}{{- else -}}{{ randAlphaNum 24 }}{{- end -}}
{{- end }}

{{/* What no schema can say: values that only make sense together. */}}
{{- define "fairpool.check" -}}
{{- if not .Values.domain -}}
{{- fail "domain is missing: set it to the host name of the control plane, such as fairpool.example.com" -}}
{{- end -}}
{{- if and (eq .Values.database.mode "external") (not .Values.database.external.existingSecret) -}}
{{- fail "database.mode is external: set database.external.existingSecret to a secret with the address of the PostgreSQL database" -}}
{{- end -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- if eq .Values.database.mode "volume" -}}
{{- fail "replicas is more than 1: a database on a volume has one writer; set database.mode to external" -}}
{{- end -}}
{{- if not .Values.keys.existingClaim -}}
{{- fail "replicas is more than 1: all replicas need the same keys; set keys.existingClaim to a claim with access mode ReadWriteMany" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.tls.inPod (not .Values.tls.secretName) -}}
{{- fail "tls.inPod is set: set tls.secretName to a secret of type kubernetes.io/tls" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled is set: set metrics.enabled too, or there is nothing to scrape" -}}
{{- end -}}
{{- end }}
