#!/usr/bin/env bash
# Builds the container image of the servers, with the web UI: `fairpool control` and `fairpool cluster` both run from it,
# and the charts in deploy/helm use it. It also has `runai` and `runai-adm`.
#
#   build.sh [--tool podman|docker] [--base IMAGE] [--tag NAME] [--python PROGRAM]
#
# The base needs Python 3.11 or later and glibc. Packages come from where pip gets them on this machine, and nothing is
# downloaded inside the image. FAIRPOOL_UI=skip uses a web UI that was built before, or none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source packaging/image.sh

tag=localhost/fairpool
read_flags "$@"
open_context
install_packages "$context"/wheels/fairpool-*.whl
add_command fairpool fairpool.cli.main
add_command runai fairpool.cli.runai.main
add_command runai-adm fairpool.cli.adm.main
build_image packaging/fairpool-image/Containerfile
echo "Built $tag: $tool push $tag; then see docs/guides/kubernetes.md"
