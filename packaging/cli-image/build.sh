#!/usr/bin/env bash
# Builds a container image with the commands `runai` and `runai-adm`, for machines that have no Python.
#
#   build.sh [--tool podman|docker] [--base IMAGE] [--tag NAME] [--python PROGRAM]
#
# The base needs Python 3.11 or later and glibc. Packages come from where pip gets them on this machine, and nothing is
# downloaded inside the image.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source packaging/image.sh

tag=localhost/runai
read_flags "$@"
export FAIRPOOL_UI=skip
open_context
install_packages click 'httpx2[http2,ws]' pydantic pyyaml rich
# The server's packages are left out: these commands use none of them.
"$python" -m pip install --quiet --no-compile --no-deps --target "$context/package" "$context"/wheels/fairpool-*.whl
mv "$context/package/fairpool" "$context"/package/fairpool-*.dist-info "$context/site-packages/"
rm -rf "$context/site-packages/fairpool/control/static"
add_command runai fairpool.cli.runai.main
add_command runai-adm fairpool.cli.adm.main
build_image packaging/cli-image/Containerfile
echo "Built $tag: $tool run --rm -it -v runai-settings:/config $tag runai list projects"
