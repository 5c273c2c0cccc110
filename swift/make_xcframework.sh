#!/bin/sh
# Builds build/CMpsgraph.xcframework, which Package.swift uses on Apple platforms. Run it on a Mac with Xcode and Python
# 3.10 or later; Xcode's own python3 is older. It contains one framework each for macOS, iOS devices, and the iOS
# simulator, with the C API as a Clang module; Xcode embeds it in applications. The script has not yet been tested on a
# Mac.
#
#   [PYTHON=python3.13] swift/make_xcframework.sh [macosx iphoneos iphonesimulator]
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
build=$here/build
[ $# -gt 0 ] || set -- macosx iphoneos iphonesimulator

[ "$(uname)" = Darwin ] || { echo "make_xcframework.sh requires a Mac, because it uses xcodebuild" >&2; exit 2; }
python=${PYTHON:-python3}
for tool in xcodebuild xcrun lipo install_name_tool "$python"; do
  command -v "$tool" >/dev/null || { echo "make_xcframework.sh requires $tool; install it first" >&2; exit 2; }
done
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
  echo "make_xcframework.sh requires Python 3.10 or later, got $("$python" --version); set PYTHON to a newer one" >&2
  exit 2
}

# CMake, Ninja, and the build's header dependencies (nlohmann-json) are installed from PyPI into a separate environment.
"$python" -m venv "$build/venv"
"$build/venv/bin/python" "$root/tools/requirements.py" build > "$build/requirements.txt"
"$build/venv/bin/python" -m pip install --quiet -r "$build/requirements.txt"

rm -rf "$build/CMpsgraph.xcframework"

# Create CMpsgraph.framework around a library, with headers in C99. macOS requires versioned frameworks, iOS flat ones.
framework() {  # library, directory, platform name in the property list, oldest system version
  made=$2/CMpsgraph.framework
  rm -rf "$made"
  if [ "$3" = MacOSX ]; then
    inside=Versions/A/ resources=$made/Versions/A/Resources oldest_key=LSMinimumSystemVersion
  else
    inside='' resources=$made oldest_key=MinimumOSVersion
  fi
  name=@rpath/CMpsgraph.framework/${inside}CMpsgraph
  inside=$made/$inside
  mkdir -p "$inside/Headers/mpsgraph" "$inside/Modules" "$resources"
  cp "$1" "$inside/CMpsgraph"
  install_name_tool -id "$name" "$inside/CMpsgraph"
  for header in mpsgraph.h custom_operation.h function_table.h export.h; do
    # Inside a framework, headers are included by the framework's name.
    sed 's|"mpsgraph/\([a-z_]*\.h\)"|<CMpsgraph/mpsgraph/\1>|' "$root/include/mpsgraph/$header" \
      > "$inside/Headers/mpsgraph/$header"
  done
  cat > "$inside/Modules/module.modulemap" <<'MAP'
framework module CMpsgraph {
  header "mpsgraph/mpsgraph.h"
  header "mpsgraph/custom_operation.h"
  header "mpsgraph/function_table.h"
  header "mpsgraph/export.h"
  export *
}
MAP
  cat > "$resources/Info.plist" <<PLIST
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
  <key>CFBundleExecutable</key><string>CMpsgraph</string>
  <key>CFBundleIdentifier</key><string>org.mpsgraph.CMpsgraph</string>
  <key>CFBundleName</key><string>CMpsgraph</string>
  <key>CFBundlePackageType</key><string>FMWK</string>
  <key>CFBundleShortVersionString</key><string>$version</string>
  <key>CFBundleVersion</key><string>$version</string>
  <key>CFBundleSupportedPlatforms</key><array><string>$3</string></array>
  <key>$oldest_key</key><string>$4</string>
</dict></plist>
PLIST
  if [ "$3" = MacOSX ]; then
    ln -s A "$made/Versions/Current"
    for part in CMpsgraph Headers Modules Resources; do ln -s "Versions/Current/$part" "$made/$part"; done
  fi
}

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/pyproject.toml" | head -n 1)
frameworks=
for sdk in "$@"; do
  case $sdk in
    macosx) system=Darwin platform=MacOSX architectures="arm64 x86_64" oldest=13.3 ;;
    iphoneos) system=iOS platform=iPhoneOS architectures=arm64 oldest=16.4 ;;
    iphonesimulator) system=iOS platform=iPhoneSimulator architectures="arm64 x86_64" oldest=16.4 ;;
    *) echo "make_xcframework.sh knows macosx, iphoneos and iphonesimulator, not $sdk" >&2; exit 2 ;;
  esac
  # Each architecture is a build of its own, because it has its own list of kernels; lipo joins the libraries.
  set --
  for architecture in $architectures; do
    made=$build/$sdk-$architecture
    "$build/venv/bin/cmake" -S "$root" -B "$made" -G Ninja -DCMAKE_MAKE_PROGRAM="$build/venv/bin/ninja" \
      -DCMAKE_SYSTEM_NAME="$system" -DCMAKE_SYSTEM_PROCESSOR="$architecture" -DCMAKE_OSX_SYSROOT="$sdk" \
      -DCMAKE_OSX_ARCHITECTURES="$architecture" -DCMAKE_OSX_DEPLOYMENT_TARGET="$oldest" -DCMAKE_BUILD_TYPE=Release \
      -DMPSGRAPH_PYTHON=OFF -DPython_EXECUTABLE="$build/venv/bin/python"
    "$build/venv/bin/cmake" --build "$made" --target mpsgraph
    set -- "$@" "$made/libmpsgraph.dylib"
  done
  mkdir -p "$build/$sdk"
  library=$build/$sdk/libmpsgraph.dylib
  lipo -create "$@" -output "$library"
  framework "$library" "$build/$sdk" "$platform" "$oldest"
  frameworks="$frameworks -framework $sdk/CMpsgraph.framework"
done

cd "$build"  # the frameworks' paths relative to it contain no spaces
# shellcheck disable=SC2086  # a list of words
xcodebuild -create-xcframework $frameworks -output CMpsgraph.xcframework
echo "made $build/CMpsgraph.xcframework"
