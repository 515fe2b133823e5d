%% Two hosts in one: network namespaces that a cable joins, and a /tmp of its own for each.
-module(etls_test_hosts).

-export([are_possible/0, with_two/1, address/1, on/2]).

%% Making them is root's privilege, and some containers do not give it to root either.
are_possible() ->
    Name = name("try"),
    Said = os:cmd("ip netns add " ++ Name ++ " 2>&1 && ip netns exec " ++ Name ++
                  " unshare -m mount -t tmpfs none /mnt 2>&1"),
    _ = os:cmd("ip netns del " ++ Name ++ " 2>&1"),
    Said =:= "".

%% Fun(Here, There); whatever it does, nothing is left of them.
with_two(Fun) ->
    Hosts = [Here, There] = [{name("a"), "10.231.77.1"}, {name("b"), "10.231.77.2"}],
    ok = file:make_dir(directory()),
    try
        _ = [run("ip netns add " ++ Name) || {Name, _} <- Hosts],
        run("ip link add name " ++ name("a") ++ " netns " ++ name("a") ++ " type veth peer name " ++
                name("b") ++ " netns " ++ name("b")),
        _ = [begin
                 In = "ip -n " ++ Name,
                 run(In ++ " addr add " ++ Address ++ "/24 dev " ++ Name),
                 run(In ++ " link set " ++ Name ++ " up"),
                 run(In ++ " link set lo up")
             end || {Name, Address} <- Hosts],
        Fun(Here, There)
    after
        _ = [os:cmd("ip netns del " ++ Name ++ " 2>&1") || {Name, _} <- Hosts],
        file:del_dir(directory())
    end.

address({_Name, Address}) -> Address.

%% The command that runs Command there.
on({Name, _Address}, Command) ->
    Shell = "mount -t tmpfs none \"$1\" && shift && exec \"$@\"",
    ["ip", "netns", "exec", Name, "unshare", "-m", "sh", "-c", Shell, "sh", directory(),
     "env", "-u", "XDG_RUNTIME_DIR", "TMPDIR=" ++ directory() | Command].

%% At most 15 characters, for the interface.
name(What) -> "etls" ++ What ++ os:getpid().

%% Not /tmp itself, where the project may be.
directory() -> "/tmp/" ++ name("hosts").

run(Command) ->
    case os:cmd(Command ++ " 2>&1") of
        "" -> ok;
        Said -> error({Command, Said})
    end.
