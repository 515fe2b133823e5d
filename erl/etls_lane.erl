%% @private
%% A lane carries one connection's plaintext. Sending goes on it from whatever process sends;
%% reading is etls_socket's, which asks for a portion at a time (arm/1), so that it can stop asking.
-module(etls_lane).

-export([check/1, module/2]).

-export_type([lane/0, choice/0, place/0, option/0, event/0]).

%% What a user may ask for; auto: local where the daemon's lane socket can be reached.
-type choice() :: auto | local | link.
%% What is known of the connection whose lane it is.
-type place() :: #{link := etls_registry:link(), conn := integer(), token := binary()}.
%% A lane's own handle.
-type lane() :: term().
-type option() ::
    {buffer, pos_integer()} | {send_timeout, timeout()} | {send_timeout_close, boolean()}.
-type event() ::
    {data, binary()}
    %% The armed portion came; no more will before the next arm/1.
    | unarmed
    %% Both of these at once: it is time to arm again.
    | {last, binary()}
    %% No more data will come, all that came before was told.
    | eof
    %% The lane's own failure, which an eof follows.
    | failed
    | unknown.

%% Claims the connection, for the calling process. {error, eagain}: try again in a moment.
-callback open(place(), [option()]) ->
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

-spec check(term()) -> ok | {error, {bad_env, {lane, term()}}}.
check(Choice) when Choice =:= auto; Choice =:= local; Choice =:= link -> ok;
check(Other) -> {error, {bad_env, {lane, Other}}}.

%% The module for a connection whose user asked for Choice; default: for nothing.
-spec module(default | choice(), etls_registry:link()) -> {ok, module()} | {error, unreachable}.
module(default, #{lane := Choice} = Link) -> module(Choice, Link);
module(link, _Link) -> {ok, etls_lane_link};
module(_, #{lane_reachable := true}) -> {ok, etls_lane_local};
module(auto, _Link) -> {ok, etls_lane_link};
module(local, _Link) -> {error, unreachable}.
