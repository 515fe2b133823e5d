%% @private
%% A lane carries one connection's plaintext. Sending goes on it from whatever process sends;
%% reading is etls_socket's, which asks for a portion at a time (arm/1), so that it can stop asking.
-module(etls_lane).

-export([module/1]).

-export_type([lane/0, option/0, event/0]).

%% A lane's own handle.
-type lane() :: term().
-type option() ::
    {buffer, pos_integer()} | {send_timeout, timeout()} | {send_timeout_close, boolean()}.
-type event() ::
    {data, binary()}
    %% The armed portion came; no more will before the next arm/1.
    | unarmed
    %% No more data will come, all that came before was told.
    | eof
    %% The lane's own failure, which an eof follows.
    | failed
    | unknown.

%% Claims the connection of the token. {error, eagain}: try again in a moment.
-callback open(Address :: term(), Token :: binary(), [option()]) ->
    {ok, lane()} | {error, atom()}.
%% From any process, atomic. Blocks while the daemon takes no more.
-callback send(lane(), iodata()) -> ok | {error, closed | timeout | einval | atom()}.
-callback set(lane(), [option()]) -> ok | {error, atom()}.
%% Lets the owner receive the next messages; event/2 understands them. Buffer is the option's value,
%% Last the size of the message before: a lane need not hold much for one that may not come.
-callback arm(lane(), Buffer :: pos_integer(), Last :: non_neg_integer()) -> ok | {error, atom()}.
-callback event(lane(), Message :: term()) -> event().
%% End of our data, after all of it; does not wait for that.
-callback shutdown(lane()) -> ok.
%% Does not wait either: what was sent is still carried over.
-callback close(lane()) -> ok.

%% The module of a configured kind.
-spec module(term()) -> {ok, module()} | {error, {bad_env, {lane, term()}}}.
module(local) -> {ok, etls_lane_local};
module(Other) -> {error, {bad_env, {lane, Other}}}.
