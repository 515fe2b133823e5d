%% @private
%% A link carries frames between the VM and its daemon. Its implementations only carry: what a frame
%% means is etls_protocol's, what follows from it etls_daemon's.
-module(etls_link).

-export([module/1]).

-export_type([config/0]).

-type config() :: #{threads := default | pos_integer(), log_level := atom(), args := [string()]}.

%% Starts or reaches the daemon. The caller becomes the receiver of the link's messages.
-callback open(config()) -> {ok, Handle :: term()} | {error, term()}.
%% From any process. ok means handed over, not arrived.
-callback send(Handle :: term(), Frame :: iodata()) -> ok | {error, closed}.
%% What a message that the receiver got says.
-callback event(Handle :: term(), Message :: term()) ->
    {frame, binary()} | {down, term()} | unknown.
%% Idempotent. The daemon notices that the VM is gone.
-callback close(Handle :: term()) -> ok.

%% The module of a configured kind.
-spec module(term()) -> {ok, module()} | {error, {bad_env, {link, term()}}}.
module(port) -> {ok, etls_link_port};
module(Other) -> {error, {bad_env, {link, Other}}}.
