# Shared by the build.sh of each image, which sources it: the flags, and the packages that go into the image.
# Packages come from where pip gets them on this machine, and nothing is downloaded inside the image.

tool=podman base=docker.io/library/python:3.12-slim python=python3

# Reads --tool, --base, --tag and --python into variables; -h prints the head of the script.
read_flags() {
  while (($#)); do
    case $1 in
      --tool | --base | --tag | --python)
        (($# > 1)) || { echo "build.sh: $1 needs a value" >&2; exit 2; }
        declare -g "${1#--}=$2"
        shift 2
        ;;
      -h | --help)
        sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
        exit
        ;;
      *) echo "build.sh: unknown argument $1; see the first lines of this file" >&2; exit 2 ;;
    esac
  done
  command -v "$tool" >/dev/null || { echo "build.sh: there is no program $tool; choose one with --tool" >&2; exit 1; }
}

# Makes the folder $context, with the wheel of this checkout, and learns which Python the base has.
open_context() {
  context=$(mktemp -d)
  trap 'rm -rf "$context"' EXIT
  version=$("$tool" run --rm --network=none --entrypoint=python3 "$base" -c \
    'import sys; print("%d.%d" % sys.version_info[:2])') ||
    { echo "build.sh: $base cannot run python3; choose another image with --base" >&2; exit 1; }
  "$python" -m pip wheel --quiet --no-deps --wheel-dir "$context/wheels" .
}

# Installs packages for the base's Python into the context; the arguments are requirements or options of pip.
install_packages() {
  local machine
  machine=$(uname -m)
  "$python" -m pip install --quiet --no-compile --target "$context/site-packages" --constraint constraints.txt \
    --only-binary=:all: --implementation cp --python-version "$version" \
    --platform "manylinux_2_28_$machine" --platform "manylinux_2_17_$machine" --platform "manylinux2014_$machine" \
    --platform "linux_$machine" \
    "$@"
  rm -rf "$context/site-packages/bin"
}

# A program of the image: its name, and the module with its function main.
add_command() {
  mkdir -p "$context/bin"
  printf '#!/usr/bin/env python3\nfrom %s import main\n\nmain()\n' "$2" >"$context/bin/$1"
  chmod 755 "$context/bin/$1"
}

build_image() {
  "$tool" build --quiet --network=none --build-arg "BASE=$base" --tag "$tag" --file "$1" "$context" >/dev/null
}
