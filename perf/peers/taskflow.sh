# Taskflow: headers. Those of TASKFLOW_INCLUDE, a folder with taskflow/taskflow.hpp, if it is set;
# otherwise Debian's newest. To be run by scripts/peers.sh.
#
# No registry that this uses has release 4; Debian's is 3.9. Its headers need nothing of a release
# of Debian, so the package is only unpacked here, found by lists of packages of its own.
source perf/peers/common.sh
unpacked="$PEERS_DIRECTORY/$name"
include=${TASKFLOW_INCLUDE:-$unpacked/usr/include}
release=sid
how="put the headers of Debian's libtaskflow-cpp-dev ($release) into $unpacked/usr/include, or set TASKFLOW_INCLUDE"
if [ ! -f "$include/taskflow/taskflow.hpp" ]; then
    [ -z "${TASKFLOW_INCLUDE:-}" ] || skip "there is no taskflow/taskflow.hpp in TASKFLOW_INCLUDE=$include"
    command -v apt-get >/dev/null || skip "$how"
    apart="$unpacked/apt"
    mkdir -p "$apart/lists/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $release main" >"$apart/sources.list"
    apt=(apt-get -qq -o "Dir::Etc::sourcelist=$apart/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$apart/lists"
        -o "Dir::Cache=$apart" -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
        -o APT::Sandbox::User=)
    (cd "$apart" && "${apt[@]}" update && "${apt[@]}" download libtaskflow-cpp-dev) >/dev/null 2>&1 || skip "$how"
    dpkg-deb --extract "$apart"/libtaskflow-cpp-dev_*.deb "$unpacked"
    rm -r "$apart"
fi
command -v g++ >/dev/null || debian g++
# Release 4 needs C++20.
g++ -std=c++20 "${fast[@]}" -flto=auto -Wall -Wextra -Werror -fPIC -shared -pthread -I perf/peers -isystem "$include" \
    perf/peers/taskflow.cpp -o "$PEERS_DIRECTORY/$name.so"
