#!/usr/bin/env bash
# Builds a container image with the commands `runai` and `runai-adm`, for machines that have no Python.
#
#   build.sh [--tool podman|docker] [--base IMAGE] [--tag NAME] [--python PROGRAM]
#
# The base needs Python 3.11 or later and glibc. Packages come from where pip gets them on this machine, and nothing is
# downloaded inside the image.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tool=podman base=docker.io/library/python:3.12-slim tag=localhost/runai python=python3
while (($#)); do
  case $1 in
    --tool | --base | --tag | --python)
      (($# > 1)) || { echo "build.sh: $1 needs a value" >&2; exit 2; }
      declare "${1#--}=$2"
      shift 2
      ;;
    -h | --help)
      sed -n "2,7s/^# \{0,1\}//p" packaging/cli-image/build.sh
      exit
      ;;
    *) echo "build.sh: unknown argument $1; see the first lines of this file" >&2; exit 2 ;;
  esac
done
command -v "$tool" >/dev/null || { echo "build.sh: there is no program $tool; choose one with --tool" >&2; exit 1; }

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
version=$("$tool" run --rm --network=none --entrypoint=python3 "$base" -c \
  'import sys; print("%d.%d" % sys.version_info[:2])') ||
  { echo "build.sh: $base cannot run python3; choose another image with --base" >&2; exit 1; }

"$python" -m pip wheel --quiet --no-deps --wheel-dir "$context/wheels" .
machine=$(uname -m)
"$python" -m pip install --quiet --no-compile --target "$context/site-packages" --constraint constraints.txt \
  --only-binary=:all: --implementation cp --python-version "$version" \
  --platform "manylinux_2_28_$machine" --platform "manylinux_2_17_$machine" --platform "manylinux2014_$machine" \
  click 'httpx2[http2,ws]' pydantic pyyaml rich
# The server's packages are left out: these commands use none of them.
"$python" -m pip install --quiet --no-compile --no-deps --target "$context/package" "$context"/wheels/fairpool-*.whl
mv "$context/package/fairpool" "$context"/package/fairpool-*.dist-info "$context/site-packages/"
rm -rf "$context/site-packages/bin"

mkdir "$context/bin"
for each in runai:runai runai-adm:adm; do
  printf '#!/usr/bin/env python3\nfrom fairpool.cli.%s.main import main\n\nmain()\n' "${each#*:}" >"$context/bin/${each%:*}"
  chmod 755 "$context/bin/${each%:*}"
done
"$tool" build --quiet --network=none --build-arg "BASE=$base" --tag "$tag" --file packaging/cli-image/Containerfile "$context" >/dev/null
echo "Built $tag: $tool run --rm -it -v runai-settings:/config $tag runai list projects"
