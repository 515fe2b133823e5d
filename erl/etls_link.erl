%% @private
%% A link carries terms between the VM and its daemon. Its implementations only carry: what a term
%% means is etls_protocol's, what follows from it etls_daemon's.
-module(etls_link).

-export([module/1, executable/0, flags/1]).

-export_type([kind/0, config/0]).

-type kind() :: port | {cnode, spawn | node()}.
-type config() :: #{
    link := kind(), threads := default | pos_integer(), log_level := atom(), args := [string()]
}.

%% Starts or reaches the daemon. The caller becomes the receiver of the link's messages.
-callback open(config()) -> {ok, Handle :: term()} | {error, term()}.
%% What the daemon said of itself in its reply to `hello' may be needed.
-callback greeted(Handle :: term(), Hello :: map()) -> ok.
%% From any process. ok means handed over, not arrived.
-callback request(
    Handle :: term(), etls_protocol:id(), etls_protocol:command(), etls_protocol:arguments()
) -> ok | {error, closed}.
%% Likewise; blocks while the link takes no more.
-callback lane(Handle :: term(), etls_protocol:lane_term()) -> ok | {error, closed}.
%% What a message that the receiver got says.
-callback event(Handle :: term(), Message :: term()) ->
    {said, etls_protocol:frame()} | {down, term()} | unknown.
%% After a `stop' request: until all that is the VM's has ended, or for Timeout milliseconds.
-callback await_stop(Handle :: term(), Timeout :: non_neg_integer()) -> ok.
%% Idempotent. The daemon notices that the VM is gone.
-callback close(Handle :: term()) -> ok.

%% The module of a configured kind.
-spec module(term()) -> {ok, module()} | {error, {bad_env, {link, term()}}}.
module(port) -> {ok, etls_link_port};
module({cnode, Node}) when is_atom(Node) -> {ok, etls_link_cnode};
module(Other) -> {error, {bad_env, {link, Other}}}.

%% The OS variable is for running another build (a sanitizer's) under an unchanged configuration.
-spec executable() -> file:filename_all().
executable() ->
    case {os:getenv("ETLSD"), application:get_env(etls, daemon, default)} of
        {Path, _} when is_list(Path), Path =/= "" -> Path;
        {_, default} -> filename:join(priv_dir(), "etlsd");
        {_, Path} -> Path
    end.

priv_dir() ->
    case code:priv_dir(etls) of
        {error, bad_name} ->
            Ebin = filename:dirname(code:which(?MODULE)),
            filename:join(filename:dirname(Ebin), "priv");
        Directory ->
            Directory
    end.

%% What every daemon that the VM starts is told.
-spec flags(config()) -> [string()].
flags(#{threads := Threads, log_level := Level, args := More}) ->
    ["--log-level", atom_to_list(Level)] ++ threads(Threads) ++ More.

threads(default) -> [];
threads(Count) -> ["--threads", integer_to_list(Count)].
