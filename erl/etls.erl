%% @doc TLS outside the VM, with the functions of `gen_tcp' and `ssl'.
%%
%% A server:
%% ```
%% {ok, Listener} = etls:listen(9999, [{certfile, "server.pem"}, {keyfile, "server.key"}]),
%% {ok, Socket} = etls:accept(Listener),
%% ok = etls:handshake(Socket),
%% ok = etls:setopts(Socket, [{active, once}]),
%% receive {etls, Socket, Data} -> etls:send(Socket, Data) end.
%% '''
%% A client:
%% ```
%% {ok, Socket} = etls:connect("localhost", 9999, [], infinity),
%% ok = etls:send(Socket, "foo"),
%% {ok, <<"foo">>} = etls:recv(Socket, 3).
%% '''
%%
%% == Messages ==
%% To the owner of a socket that is not passive. `Socket' is the term that connect or accept
%% returned.
%% <dl>
%% <dt>`{etls, Socket, Data}'</dt>
%% <dd>Received: a binary, a string under `{mode, list}', or what {@link erlang:decode_packet/3}
%% makes of the packet under `{packet, http}' and its like.</dd>
%% <dt>`{etls_closed, Socket}'</dt>
%% <dd>The peer will send no more. Comes once, after all data.</dd>
%% <dt>`{etls_error, Socket, Reason}'</dt>
%% <dd>Instead of `etls_closed', where the connection did not end in an orderly way: an alert, a
%% reset, or `econnaborted' when the daemon died.</dd>
%% <dt>`{etls_passive, Socket}'</dt>
%% <dd>The count of `{active, N}' is used up.</dd>
%% </dl>
%% A passive socket gets no messages: there the next {@link recv/2} tells the end, first with the
%% reason, then with `closed'.
%%
%% == Options ==
%% See the types {@link stream_option()}, {@link lane_option()}, {@link tcp_option()},
%% {@link address_option()} and {@link tls_option()}. Where an option is given twice, the first one
%% counts.
-module(etls).

-include("etls_internal.hrl").

-export([start/0, stop/0]).
-export([connect/3, connect/4, listen/2, accept/1, accept/2, handshake/1, handshake/2]).
-export([send/2, recv/2, recv/3, setopts/2, getopts/2, getstat/1, getstat/2]).
-export([controlling_process/2, shutdown/2, close/1]).
-export([peername/1, sockname/1, peercert/1, certificate_chain/1]).
-export([connection_information/1, connection_information/2, negotiated_protocol/1]).
-export([cipher_suites/0, cipher_suites/1, format_error/1]).

-export_type([socket/0, listener/0, host/0, address/0, reason/0]).
-export_type([option/0, listen_option/0, connect_option/0]).
-export_type([stream_option/0, lane_option/0, tcp_option/0, address_option/0, tls_option/0]).

-opaque socket() :: #etls_socket{}.
%% A connection.
-opaque listener() :: #etls_listener{}.
%% What {@link listen/2} made.

-type host() :: string() | binary() | atom() | inet:ip_address() | {local, string() | binary()}.
%% A name, an address as a tuple or in text, or the path of an AF_UNIX socket.

-type address() :: {inet:ip_address(), inet:port_number()} | {local, binary()}.

-type reason() ::
    timeout
    | closed
    | inet:posix()
    | nxdomain
    | {tls_alert, {Alert :: atom(), Text :: string()}}
    | {options, {Option :: term(), Reason :: term()}}
    | not_owner
    | not_started
    | no_peercert
    | protocol_not_negotiated
    | term().
%% `{tls_alert, _}' carries OTP's name of the alert (`unknown_ca', `handshake_failure', ...),
%% whichever side found the fault. `{options, _}' names the option and what is wrong with it:
%% `unknown', `{invalid, Value}', `required', `{enoent, Path}', ...
%% {@link format_error/1} has the words.

-type stream_option() ::
    {active, boolean() | once | -32768..32767}
    | {mode, binary | list}
    | binary
    | list
    | {packet, 0 | etls_packet:type()}
    | {packet_size, non_neg_integer()}
    | {exit_on_close, boolean()}
    | {send_timeout, timeout()}
    | {send_timeout_close, boolean()}
    | {buffer, pos_integer()}.
%% These act on the VM's side, and may be set at any time.
%% <dl>
%% <dt>`active' (default `false')</dt>
%% <dd>As in `gen_tcp': `true', `false', `once', or a number of messages that is added to
%% what is left of the last one.</dd>
%% <dt>`mode' (default `binary')</dt><dd>Binaries or strings.</dd>
%% <dt>`packet' (default `raw')</dt>
%% <dd>Adds (1, 2, 4 bytes) and removes lengths, or cuts lines, HTTP headers, ...; the types are
%% those of {@link erlang:decode_packet/3}.</dd>
%% <dt>`packet_size' (default 0: no limit)</dt>
%% <dd>A longer packet is `emsgsize' and ends the connection. Give one where the peer is not
%% trusted: without it an incomplete packet is held whatever its length.</dd>
%% <dt>`exit_on_close' (default `true')</dt>
%% <dd>`false': after the peer's close_notify we may still send; the socket lives until
%% {@link close/1}.</dd>
%% <dt>`send_timeout' (default `infinity'), `send_timeout_close' (default `false')</dt>
%% <dd>How long {@link send/2} may block, in milliseconds; and whether the socket is closed
%% then.</dd>
%% <dt>`buffer' (default 131072)</dt><dd>Bytes read from the daemon at a time.</dd>
%% </dl>

-type lane_option() :: {lane, auto | local | link}.
%% How the connection's data travel between daemon and VM, for its whole life; by default as the
%% application's environment says (`auto'). `local': an AF_UNIX socket for each connection. `link':
%% terms on the link, which is slower, but reaches a daemon on another host. `auto': `local' where
%% the daemon's socket can be reached from here. {@link getopts/2} tells which of the two it is.

-type tcp_option() ::
    {nodelay, boolean()}
    | {keepalive, boolean()}
    | {sndbuf, pos_integer()}
    | {recbuf, pos_integer()}
    | {linger, {boolean(), Seconds :: 0..65535}}
    | {reuseaddr, boolean()}
    | {ipv6_v6only, boolean()}
    | {backlog, non_neg_integer()}.
%% These act on the daemon's TCP socket. `nodelay' is on by default, the others as the kernel has
%% them. `reuseaddr', `ipv6_v6only' and `backlog' (listen only) cannot be set later, and `backlog'
%% cannot be asked for.

-type address_option() ::
    {ip | ifaddr, inet:ip_address() | any | loopback | {local, string() | binary()}}
    | {port, inet:port_number()}
    | {family, inet | inet6 | local}
    | inet
    | inet6
    | local.
%% Where to listen, or where to connect from; `port' is for connect. Listening is on IPv4 unless
%% the address or the family says otherwise; connecting tries what the host's name resolves to.

-type tls_option() ::
    {versions, ['tlsv1.2' | 'tlsv1.3']}
    | {verify | verify_type, verify_none | verify_peer}
    | {fail_if_no_peer_cert, boolean()}
    | {verify_client_once, boolean()}
    | {rfc2818_verification_hostname, string() | binary()}
    | {server_name_indication, string() | binary() | disable}
    | {cacerts | crls | chain, [PemOrDer :: binary()]}
    | {cacertfile | certfile | keyfile, string() | binary()}
    | {ciphers, string() | binary() | [string() | binary()]}
    | {alpn_advertised_protocols | alpn_preferred_protocols, [binary()]}.
%% These act on the daemon's TLS session. Files are read by the daemon and must be readable for
%% its user; relative names are taken from the VM's working directory.
%% <dl>
%% <dt>`versions' (default: both)</dt><dd>The protocol versions allowed.</dd>
%% <dt>`verify', `verify_type' (default `verify_none')</dt>
%% <dd>Whether the peer's certificate must be good. A client's `{verify, verify_peer}' also checks
%% that it is for the host connected to (or for the name of `server_name_indication', where that is
%% given; not with `disable'); `{verify_type, verify_peer}' does so only for the name of
%% `rfc2818_verification_hostname'.</dd>
%% <dt>`rfc2818_verification_hostname'</dt>
%% <dd>The name or IP address that the peer's certificate must be for; wins over all others.</dd>
%% <dt>`fail_if_no_peer_cert', `verify_client_once' (server; default `false')</dt>
%% <dd>Under `verify_peer': whether a client must send a certificate, and whether it is asked
%% only in its first handshake.</dd>
%% <dt>`cacertfile', `cacerts', `crls'</dt>
%% <dd>Whom to trust, and what is revoked. The file and the list add up. What is given in binaries
%% may not exceed 16 MB in all (`too_long').</dd>
%% <dt>`certfile', `keyfile', `chain'</dt>
%% <dd>Our own certificate (required to listen), its key (default: `certfile') and the certificates
%% between it and the root.</dd>
%% <dt>`ciphers'</dt><dd>OpenSSL's cipher strings.</dd>
%% <dt>`server_name_indication' (client; default: the host, if it is a name)</dt>
%% <dd>The name to ask the server for; `disable': none.</dd>
%% <dt>`alpn_advertised_protocols' (client), `alpn_preferred_protocols' (server)</dt>
%% <dd>Application protocols, best first.</dd>
%% </dl>

-type option() :: stream_option() | tcp_option().
-type connect_option() :: option() | lane_option() | address_option() | tls_option().
-type listen_option() :: option() | lane_option() | address_option() | tls_option().

%% --- the application -------------------------------------------------------------------------

%% @doc Starts the application, and with it the daemon.
-spec start() -> ok | {error, term()}.
start() ->
    case application:ensure_all_started(etls) of
        {ok, _} -> ok;
        {error, Reason} -> {error, Reason}
    end.

%% @doc Stops the application: connections are closed, the daemon exits.
-spec stop() -> ok | {error, term()}.
stop() ->
    application:stop(etls).

%% --- making connections ----------------------------------------------------------------------

%% @equiv connect(Host, Port, Options, infinity)
-spec connect(host(), inet:port_number(), [connect_option()]) ->
    {ok, socket()} | {error, reason()}.
connect(Host, Port, Options) ->
    connect(Host, Port, Options, infinity).

%% @doc Connects and shakes hands. `Timeout' is for all of it, in milliseconds; when it runs out,
%% nothing is left behind. `Port' is 0 for `{local, Path}'.
-spec connect(host(), inet:port_number(), [connect_option()], timeout()) ->
    {ok, socket()} | {error, reason()}.
connect(Host, Port, Options, Timeout) ->
    case etls_options:check_timeout(Timeout) of
        ok ->
            case etls_options:connect(Host, Port, Options) of
                {ok, #{stream := Stream, arguments := Arguments, linger := Linger}} ->
                    etls_socket:connect(etls, Arguments, Stream, Linger, Timeout);
                {error, Reason} ->
                    {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

%% @doc Listens on `Port'; 0 lets the kernel choose, and {@link sockname/1} tells what. The option
%% `certfile' is required. Accepted sockets inherit the stream and TCP options.
-spec listen(inet:port_number(), [listen_option()]) -> {ok, listener()} | {error, reason()}.
listen(Port, Options) ->
    case etls_options:listen(Port, Options) of
        {ok, #{stream := Stream, arguments := Arguments, linger := Linger}} ->
            etls_listener:listen(etls, Arguments, Stream, Linger);
        {error, Reason} ->
            {error, Reason}
    end.

%% @equiv accept(Listener, infinity)
-spec accept(listener()) -> {ok, socket()} | {error, reason()}.
accept(Listener) ->
    accept(Listener, infinity).

%% @doc Waits for a TCP connection; the caller becomes its owner and calls {@link handshake/2}
%% next. `Timeout' is in milliseconds. An accept that is given up loses no connection.
-spec accept(listener(), timeout()) -> {ok, socket()} | {error, reason()}.
accept(#etls_listener{} = Listener, Timeout) ->
    case etls_options:check_timeout(Timeout) of
        ok -> etls_listener:call(Listener, {accept, Timeout});
        {error, Reason} -> {error, Reason}
    end;
accept(_, _) ->
    {error, einval}.

%% @equiv handshake(Socket, infinity)
-spec handshake(socket()) -> ok | {error, reason()}.
handshake(Socket) ->
    handshake(Socket, infinity).

%% @doc Shakes hands on an accepted socket. After an error, `timeout' included, the socket is
%% closed. `{error, eisconn}': it was done before.
-spec handshake(socket(), timeout()) -> ok | {error, reason()}.
handshake(#etls_socket{} = Socket, Timeout) ->
    case etls_options:check_timeout(Timeout) of
        ok -> etls_socket:handshake(Socket, Timeout);
        {error, Reason} -> {error, Reason}
    end;
handshake(_, _) ->
    {error, einval}.

%% --- data ------------------------------------------------------------------------------------

%% @doc Sends all of `Data', as one piece even where several processes send at a time. Blocks while
%% the peer takes no more, at most for the option `send_timeout'. ok: it is on its way.
-spec send(socket(), iodata()) -> ok | {error, reason()}.
send(#etls_socket{ref = Ref} = Socket, Data) ->
    case etls_registry:sending(Ref) of
        {Module, Lane, 0, CloseOnTimeout} when is_binary(Data) ->
            sent(Module:send(Lane, Data), CloseOnTimeout, Socket);
        {Module, Lane, HeaderBytes, CloseOnTimeout} ->
            % Sized without a header, too: the driver would log what is no iodata as its own error.
            try iolist_size(Data) of
                _ when HeaderBytes =:= 0 ->
                    sent(Module:send(Lane, Data), CloseOnTimeout, Socket);
                Size when Size bsr (HeaderBytes * 8) =:= 0 ->
                    % Header and data in one command, so that concurrent sends stay whole.
                    Packet = [<<Size:HeaderBytes/unit:8>> | Data],
                    sent(Module:send(Lane, Packet), CloseOnTimeout, Socket);
                _ ->
                    {error, emsgsize}
            catch
                error:badarg -> {error, einval}
            end;
        refused ->
            case etls_registry:find(Ref) of
                {opening, _} -> {error, enotconn};
                _ -> {error, closed}
            end
    end;
send(_, _) ->
    {error, einval}.

sent(ok, _CloseOnTimeout, _Socket) ->
    ok;
sent({error, timeout}, true, Socket) ->
    ok = etls_socket:abort(Socket),
    {error, timeout};
sent({error, Reason}, _CloseOnTimeout, _Socket) ->
    {error, Reason}.

%% @equiv recv(Socket, Length, infinity)
-spec recv(socket(), non_neg_integer()) -> {ok, term()} | {error, reason()}.
recv(Socket, Length) ->
    recv(Socket, Length, infinity).

%% @doc Receives from a passive socket: exactly `Length' bytes under `{packet, raw}' (0: whatever is
%% there, at least one), else a packet, and `Length' does not matter. `{error, timeout}' loses no
%% data. Several callers are served in turn. `{error, einval}': the socket is active.
-spec recv(socket(), non_neg_integer(), timeout()) -> {ok, term()} | {error, reason()}.
recv(#etls_socket{} = Socket, Length, Timeout) ->
    case {etls_options:check_length(Length), etls_options:check_timeout(Timeout)} of
        {ok, ok} -> etls_socket:call(Socket, {recv, Length, Timeout});
        {{error, Reason}, _} -> {error, Reason};
        {_, {error, Reason}} -> {error, Reason}
    end;
recv(_, _, _) ->
    {error, einval}.

%% @doc No more sending (`write': what was sent goes out, then close_notify), no more receiving
%% (`read'), or neither.
-spec shutdown(socket(), read | write | read_write) -> ok | {error, reason()}.
shutdown(#etls_socket{} = Socket, How) when How =:= read; How =:= write; How =:= read_write ->
    etls_socket:call(Socket, {shutdown, How});
shutdown(_, _) ->
    {error, einval}.

%% @doc Closes. A connection's sent data and close_notify are delivered first: this waits for that
%% up to 5 seconds, the daemon goes on for as long as the peer takes data. The option `linger' sets
%% another limit, `{true, 0}' none of it. Callers in recv or accept get `{error, closed}'; no
%% message is sent.
-spec close(socket() | listener()) -> ok | {error, reason()}.
close(#etls_socket{} = Socket) ->
    _ = etls_socket:call(Socket, close),
    ok;
close(#etls_listener{} = Listener) ->
    _ = etls_listener:call(Listener, close),
    ok;
close(_) ->
    {error, einval}.

%% @doc Gives a socket to another local process. Only the owner may. Messages that the caller has
%% not received yet go with it.
-spec controlling_process(socket() | listener(), pid()) -> ok | {error, reason()}.
controlling_process(#etls_socket{face = Face} = Socket, Pid) ->
    case etls_socket:call(Socket, {give, Pid}) of
        ok when Pid =:= self() ->
            ok;
        ok ->
            ok = forward(Socket, etls_face:tags(Face), Pid),
            % An error: it ended meanwhile, which is the new owner's to hear.
            _ = etls_socket:call(Socket, resume),
            ok;
        {error, Reason} ->
            {error, Reason}
    end;
controlling_process(#etls_listener{} = Listener, Pid) ->
    etls_listener:call(Listener, {give, Pid});
controlling_process(_, _) ->
    {error, einval}.

forward(Socket, {Data, Closed, Error, Passive} = Tags, Pid) ->
    receive
        {Data, Socket, _} = Message -> forward(Message, Socket, Tags, Pid);
        {Closed, Socket} = Message -> forward(Message, Socket, Tags, Pid);
        {Error, Socket, _} = Message -> forward(Message, Socket, Tags, Pid);
        {Passive, Socket} = Message -> forward(Message, Socket, Tags, Pid)
    after 0 -> ok
    end.

forward(Message, Socket, Tags, Pid) ->
    Pid ! Message,
    forward(Socket, Tags, Pid).

%% --- options ---------------------------------------------------------------------------------

%% @doc Sets stream and TCP options, all or none.
-spec setopts(socket() | listener(), [option()]) -> ok | {error, reason()}.
setopts(#etls_socket{} = Socket, Options) ->
    case etls_options:set(Options) of
        {ok, Changes} -> etls_socket:call(Socket, {setopts, Changes});
        {error, Reason} -> {error, Reason}
    end;
setopts(#etls_listener{} = Listener, Options) ->
    case etls_options:set(Options) of
        {ok, Changes} -> etls_listener:call(Listener, {setopts, Changes});
        {error, Reason} -> {error, Reason}
    end;
setopts(_, _) ->
    {error, einval}.

%% @doc The values of options, by name, in the order asked for. The stream options' are the VM's,
%% the TCP options' are the kernel's.
-spec getopts(socket() | listener(), [atom()]) -> {ok, [{atom(), term()}]} | {error, reason()}.
getopts(#etls_socket{ref = Ref} = Socket, Names) ->
    getopts(Ref, Names, fun(Stream) ->
        etls_socket:call(Socket, {getopts, Stream})
    end);
getopts(#etls_listener{ref = Ref} = Listener, Names) ->
    getopts(Ref, Names, fun(Stream) ->
        etls_listener:call(Listener, {getopts, Stream})
    end);
getopts(_, _) ->
    {error, einval}.

getopts(Ref, Names, AskStream) ->
    case etls_options:names(Names) of
        {ok, #{stream := Stream, tcp := Tcp}} ->
            case AskStream(Stream) of
                {ok, Values} when Tcp =:= [] -> {ok, Values};
                {ok, Values} -> in_order(Names, Values, ask(Ref, get_options, #{names => Tcp}));
                {error, Reason} -> {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

in_order(Names, Stream, {ok, Tcp}) ->
    All = maps:merge(Tcp, maps:from_list(Stream)),
    {ok, [{Name, maps:get(Name, All)} || Name <- Names, is_map_key(Name, All)]};
in_order(_Names, _Stream, {error, Reason}) ->
    {error, Reason}.

%% @doc All counters of {@link getstat/2}.
-spec getstat(socket()) -> {ok, [{atom(), non_neg_integer()}]} | {error, reason()}.
getstat(#etls_socket{ref = Ref}) ->
    case ask(Ref, info, #{}) of
        {ok, Counters} -> {ok, maps:to_list(Counters)};
        {error, Reason} -> {error, Reason}
    end;
getstat(_) ->
    {error, einval}.

%% @doc Counters of the connection's TCP socket, as {@link inet:getstat/2} has them: what crossed
%% the network, in bytes and in kernel calls.
-spec getstat(socket(), [inet:stat_option()]) ->
    {ok, [{inet:stat_option(), non_neg_integer()}]} | {error, reason()}.
getstat(Socket, Names) when length(Names) >= 0 ->
    case getstat(Socket) of
        {ok, Counters} ->
            Known = maps:from_list(Counters),
            case [Name || Name <- Names, not is_map_key(Name, Known)] of
                [] -> {ok, [{Name, maps:get(Name, Known)} || Name <- Names]};
                _ -> {error, einval}
            end;
        {error, Reason} ->
            {error, Reason}
    end;
getstat(_, _) ->
    {error, einval}.

%% Something about this socket that only the daemon knows.
ask(Ref, Command, Arguments) ->
    case etls_registry:find(Ref) of
        {_, #{conn := Conn, daemon := Daemon}} ->
            etls_daemon:ask(Daemon, Command, Arguments#{conn => Conn});
        {_, #{listener := Listener, daemon := Daemon}} ->
            etls_daemon:ask(Daemon, Command, Arguments#{listener => Listener});
        _ ->
            {error, closed}
    end.

%% --- what is known of a connection -----------------------------------------------------------

%% @doc The peer's address.
-spec peername(socket()) -> {ok, address()} | {error, reason()}.
peername(#etls_socket{ref = Ref}) ->
    fact(peer, Ref);
peername(_) ->
    {error, einval}.

%% @doc Our own address.
-spec sockname(socket() | listener()) -> {ok, address()} | {error, reason()}.
sockname(#etls_socket{ref = Ref}) ->
    fact(local, Ref);
sockname(#etls_listener{ref = Ref}) ->
    fact(local, Ref);
sockname(_) ->
    {error, einval}.

fact(Key, Ref) ->
    case etls_registry:find(Ref) of
        {_, #{Key := Value}} -> {ok, Value};
        {_, _} -> {error, enotconn};
        unknown -> {error, closed}
    end.

%% @doc The peer's certificate, in DER.
-spec peercert(socket()) -> {ok, Der :: binary()} | {error, reason()}.
peercert(Socket) ->
    case certificate_chain(Socket) of
        {ok, [Leaf | _]} -> {ok, Leaf};
        {ok, []} -> {error, no_peercert};
        {error, Reason} -> {error, Reason}
    end.

%% @doc The certificates that the peer sent, in DER, its own first; empty where it sent none.
-spec certificate_chain(socket()) -> {ok, [Der :: binary()]} | {error, reason()}.
certificate_chain(#etls_socket{ref = Ref}) ->
    case fact(info, Ref) of
        {ok, #{peer_chain := Chain}} -> {ok, Chain};
        {error, Reason} -> {error, Reason}
    end;
certificate_chain(_) ->
    {error, einval}.

%% @doc The application protocol (ALPN) that was agreed on.
-spec negotiated_protocol(socket()) -> {ok, binary()} | {error, reason()}.
negotiated_protocol(#etls_socket{ref = Ref}) ->
    case fact(info, Ref) of
        {ok, #{alpn := Protocol}} -> {ok, Protocol};
        {ok, _} -> {error, protocol_not_negotiated};
        {error, Reason} -> {error, Reason}
    end;
negotiated_protocol(_) ->
    {error, einval}.

%% @doc What the handshake agreed on, with `ssl''s keys: `protocol' (`tlsv1.2' or `tlsv1.3'),
%% `selected_cipher_suite' (a map), `session_resumption' (a boolean), `sni_hostname' (a string or
%% `undefined'), and `cipher_suite_name' (OpenSSL's name, a string).
-spec connection_information(socket()) -> {ok, [{atom(), term()}]} | {error, reason()}.
connection_information(#etls_socket{ref = Ref}) ->
    case fact(info, Ref) of
        {ok, Info} -> {ok, information(Info)};
        {error, Reason} -> {error, Reason}
    end;
connection_information(_) ->
    {error, einval}.

%% @doc Some of {@link connection_information/1}, in the order asked for; what is not known is left
%% out.
-spec connection_information(socket(), [atom()]) ->
    {ok, [{atom(), term()}]} | {error, reason()}.
connection_information(Socket, Items) when length(Items) >= 0 ->
    case connection_information(Socket) of
        {ok, Information} ->
            Found = [lists:keyfind(Item, 1, Information) || Item <- Items],
            {ok, [Pair || {_, _} = Pair <- Found]};
        {error, Reason} ->
            {error, Reason}
    end;
connection_information(_, _) ->
    {error, einval}.

information(#{version := Version, cipher := Name, cipher_standard := Standard} = Info) ->
    #{resumed := Resumed} = Info,
    Suite =
        case etls_cipher:suite(Standard) of
            {ok, Map} -> [{selected_cipher_suite, Map}];
            {error, unknown} -> []
        end,
    ServerName =
        case Info of
            #{server_name := Binary} -> unicode:characters_to_list(Binary);
            _ -> undefined
        end,
    [{protocol, Version}, {session_resumption, Resumed} | Suite] ++
        [{sni_hostname, ServerName}, {cipher_suite_name, binary_to_list(Name)}].

%% --- OpenSSL, words --------------------------------------------------------------------------

%% @doc The names of the cipher suites that the daemon offers.
-spec cipher_suites() -> [string()] | {error, reason()}.
cipher_suites() ->
    suites(#{}).

%% @doc The names of those that an OpenSSL cipher string selects.
-spec cipher_suites(string() | binary()) -> [string()] | {error, reason()}.
cipher_suites(Filter) ->
    case etls_options:cipher_filter(Filter) of
        {ok, Ciphers} -> suites(#{filter => Ciphers});
        {error, Reason} -> {error, Reason}
    end.

suites(Arguments) ->
    case etls_daemon:call(cipher_suites, Arguments) of
        {ok, #{suites := Suites}} -> [binary_to_list(Suite) || Suite <- Suites];
        {error, Reason} -> {error, Reason}
    end.

%% @doc A reason, or `{error, Reason}', in words.
-spec format_error(reason() | {error, reason()}) -> string().
format_error(Reason) ->
    etls_error:format(Reason).
