# Taskflow: headers, which Debian has since release 13. To be run by scripts/peers.sh.
#
# They need nothing of that release, so on another one the package is only unpacked here, found by lists of packages of its own.
source perf/peers/common.sh
unpacked="$PEERS_DIRECTORY/$name"
release=trixie
how="put the headers of Debian's libtaskflow-cpp-dev ($release) into $unpacked/usr/include"
if [ ! -f "$unpacked/usr/include/taskflow/taskflow.hpp" ]; then
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
current "$unpacked/usr/include/taskflow/taskflow.hpp" perf/peers/taskflow.cpp perf/peers/order.hpp && exit
command -v g++ >/dev/null || debian g++
g++ -std=c++17 -O2 -Wall -Wextra -Werror -fPIC -shared -pthread -I perf/peers -isystem "$unpacked/usr/include" \
    perf/peers/taskflow.cpp -o "$PEERS_DIRECTORY/$name.so"
