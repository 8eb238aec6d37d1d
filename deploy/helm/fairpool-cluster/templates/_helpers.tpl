{{- define "fairpool.selector" -}}
app.kubernetes.io/name: fairpool-cluster
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fairpool.labels" -}}
{{ include "fairpool.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: fairpool
{{- end }}

{{- define "fairpool.nodeAgentSelector" -}}
app.kubernetes.io/name: fairpool-node-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fairpool.nodeAgentLabels" -}}
{{ include "fairpool.nodeAgentSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: fairpool
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

{{- define "fairpool.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The job that removes what would keep namespaces from being deleted, once the scheduler has stopped. */}}
{{- define "fairpool.uninstall" -}}
backoffLimit: 3
activeDeadlineSeconds: 600
template:
  metadata:
    labels:
      app.kubernetes.io/name: fairpool-uninstall
      app.kubernetes.io/instance: {{ .Release.Name }}
  spec:
    serviceAccountName: fairpool-cluster
    restartPolicy: Never
    {{- include "fairpool.pullSecrets" . | nindent 4 }}
    securityContext: {{- toYaml .Values.podSecurityContext | nindent 6 }}
    containers:
      - name: uninstall
        image: {{ include "fairpool.image" . }}
        imagePullPolicy: {{ .Values.image.pullPolicy }}
        command: [fairpool, kubernetes-cleanup, --scale-down, {{ .Release.Namespace }}/fairpool-cluster{{ if .Values.uninstall.deletePods }}, --delete-pods{{ end }}]
        securityContext: {{- toYaml .Values.containerSecurityContext | nindent 10 }}
        volumeMounts:
          - {name: tmp, mountPath: /tmp}
    volumes:
      - name: tmp
        emptyDir: {}
    {{- include "fairpool.placement" . | nindent 4 }}
{{- end }}

{{/* What no schema can say: values that only make sense together. */}}
{{- define "fairpool.check" -}}
{{- if not .Values.controlPlane.url -}}
{{- fail "controlPlane.url is missing: set it to the address of the control plane, such as https://fairpool.example.com" -}}
{{- end -}}
{{- if not (or .Values.controlPlane.token .Values.controlPlane.existingSecret) -}}
{{- fail "controlPlane.token is missing: set it to what `runai-adm cluster create NAME` prints, or controlPlane.existingSecret to a secret with it" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.ledger.existingSecret) -}}
{{- fail "replicas is more than 1: a ledger on a volume has one writer; set ledger.existingSecret to a secret with the address of a PostgreSQL database" -}}
{{- end -}}
{{- with .Values.nodeAgent -}}
{{- if and .enabled (lt (int .fenceAfterSeconds) (mul 3 (int .renewEverySeconds))) -}}
{{- fail "nodeAgent.fenceAfterSeconds is less than three times nodeAgent.renewEverySeconds: one slow answer of the API server would end all pods" -}}
{{- end -}}
{{- if and .enabled (lt (mul 4 (int .goneAfterSeconds)) (mul 5 (int .fenceAfterSeconds))) -}}
{{- fail "nodeAgent.goneAfterSeconds is less than 5/4 of nodeAgent.fenceAfterSeconds: agents need time to end pods before others start in their place" -}}
{{- end -}}
{{- end -}}
{{- end }}
