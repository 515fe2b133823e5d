%% @private
%% The link's terms (proto/PROTOCOL.md): requests to frames, frames to replies and events. Pure.
%%
%% Frames are decoded with `safe': the daemon cannot make this VM create atoms. The atoms that it
%% may say are therefore named here (known_atoms/0), which makes them exist.
-module(etls_protocol).

-include("../proto/version.hrl").

-export([version/0, request/3, lane/1, decode/1, message/1, id/2, known_atoms/0]).

-export_type([id/0, command/0, arguments/0, result/0, reason/0, frame/0, event/0]).
-export_type([lane_term/0, lane_event/0]).

%% A process is named by its text and not by its pid, because a pid looks like another node's once
%% this node has been given its name (net_kernel:start/2) and comes back.
-type id() :: {Process :: binary(), Tag :: integer()} | Tag :: integer().
-type command() :: atom().
-type arguments() :: #{atom() => term()}.
-type reason() ::
    timeout
    | closed
    | cancelled
    | atom()
    | {tls_alert, {atom(), string()}}
    | {options, {atom(), atom() | {atom(), string()}}}
    | {bad_request, string()}
    | {protocol_version, integer()}
    | {unknown_command, atom()}.
-type result() :: ok | {ok, map()} | {error, reason()}.
-type receiver() :: {process, pid(), Tag :: integer()} | {call, integer()}.
-type event() :: {ended, close_notify | truncated | closed | reason()}.
-type frame() ::
    {reply, receiver(), result()}
    | {event, pid(), Tag :: integer(), event()}
    | {lane, Conn :: integer(), lane_event()}
    | {log, logger:level(), binary()}
    | {error, bad_frame}.
%% What a link lane carries to the daemon, and what comes of it.
-type lane_term() ::
    {data, Conn :: integer(), iodata()}
    | {credit, Conn :: integer(), Bytes :: pos_integer()}
    | {eof, Conn :: integer()}
    | {hangup, Conn :: integer()}.
-type lane_event() :: {data, binary()} | {credit, pos_integer()} | eof | hangup.

-spec version() -> pos_integer().
version() -> ?ETLS_PROTOCOL_VERSION.

%% The frame's content; the link adds the length.
-spec request(id(), command(), arguments()) -> binary().
request(Id, Command, Arguments) ->
    term_to_binary({request, Id, Command, Arguments}).

%% A lane's term as a frame's content. Data are not copied here.
-spec lane(lane_term()) -> iodata().
lane({data, Conn, Data}) ->
    % {data, Conn, Binary}, whose bytes follow.
    [<<131, 104, 3>>, external(data), external(Conn), <<109, (iolist_size(Data)):32>> | Data];
lane(Term) ->
    term_to_binary(Term).

%% Without the version byte.
external(Term) ->
    <<131, External/binary>> = term_to_binary(Term),
    External.

%% How Pid finds the reply, or a connection's events, again.
-spec id(pid(), Tag :: integer()) -> {Process :: binary(), Tag :: integer()}.
id(Pid, Tag) ->
    {list_to_binary(pid_to_list(Pid)), Tag}.

%% Data, which are most of what comes on a link lane, are cut out of their frame without a copy.
-spec decode(binary()) -> frame().
decode(<<131, 104, 3, 119, 4, "data", 97, Conn, 109, Size:32, Data:Size/binary>>) ->
    {lane, Conn, {data, Data}};
decode(<<131, 104, 3, 119, 4, "data", 98, Conn:32/signed, 109, Size:32, Data:Size/binary>>) ->
    {lane, Conn, {data, Data}};
decode(Frame) ->
    try binary_to_term(Frame, [safe]) of
        Term -> message(Term)
    catch
        error:badarg -> salvage(Frame)
    end.

-spec message(term()) -> frame().
message({data, Conn, Data}) when is_integer(Conn), is_binary(Data) ->
    {lane, Conn, {data, Data}};
message({credit, Conn, Bytes}) when is_integer(Conn), is_integer(Bytes), Bytes > 0 ->
    {lane, Conn, {credit, Bytes}};
message({eof, Conn}) when is_integer(Conn) ->
    {lane, Conn, eof};
message({hangup, Conn}) when is_integer(Conn) ->
    {lane, Conn, hangup};
message({reply, Id, Result}) ->
    case receiver(Id) of
        error -> {error, bad_frame};
        Receiver -> {reply, Receiver, result(Result)}
    end;
message({event, log, {Level, Text}}) when is_binary(Text) ->
    case lists:member(Level, [error, warning, notice, info, debug]) of
        true -> {log, Level, Text};
        false -> {error, bad_frame}
    end;
message({event, Subject, {ended, End}}) ->
    case receiver(Subject) of
        {process, Pid, Tag} -> {event, Pid, Tag, {ended, reason(End)}};
        _ -> {error, bad_frame}
    end;
message(_) ->
    {error, bad_frame}.

receiver({Process, Tag}) when is_binary(Process), is_integer(Tag) ->
    try
        {process, list_to_pid(binary_to_list(Process)), Tag}
    catch
        error:badarg -> error
    end;
receiver(Tag) when is_integer(Tag) -> {call, Tag};
receiver(_) -> error.

result(ok) -> ok;
result({ok, Map}) when is_map(Map) -> {ok, Map};
result({error, Reason}) -> {error, reason(Reason)};
result(_) -> {error, bad_reply}.

reason({tls_alert, {Alert, Text}}) when is_binary(Text) ->
    {tls_alert, {Alert, text(Text)}};
reason({options, {Option, {Kind, Path}}}) when is_binary(Path) ->
    {options, {Option, {Kind, text(Path)}}};
reason({bad_request, Text}) when is_binary(Text) ->
    {bad_request, text(Text)};
reason(Reason) ->
    Reason.

text(Binary) ->
    case unicode:characters_to_list(Binary) of
        List when is_list(List) -> List;
        _ -> binary_to_list(Binary)
    end.

%% A reply with an atom unheard of must not leave its process waiting: read as far as the Id.
salvage(<<131, 104, 3, Elements/binary>>) ->
    try
        {reply, Rest} = first_term(Elements),
        {Id, _} = first_term(Rest),
        message({reply, Id, bad_reply})
    catch
        error:_ -> {error, bad_frame}
    end;
salvage(_) ->
    {error, bad_frame}.

first_term(Elements) ->
    {Term, Used} = binary_to_term(<<131, Elements/binary>>, [safe, used]),
    <<_:(Used - 1)/binary, Rest/binary>> = Elements,
    {Term, Rest}.

%% Whatever the daemon may say in an atom.
-spec known_atoms() -> [atom()].
known_atoms() ->
    % messages and keys
    [reply, event, log, data, credit, eof, hangup, ok, error, true, false, ended] ++
        [inet, inet6, local, none, undefined] ++
        [protocol, version, openssl, lane, threads, os_pid, frame_limit, listener, address, pid] ++
        [conn, token, peer, cipher, cipher_standard, resumed, peer_chain, alpn, server_name] ++
        [recv_oct, recv_cnt, recv_max, recv_avg, recv_dvi, send_oct, send_cnt, send_max] ++
        [send_avg, send_pend, connections, listeners, accepts_waiting, accepted, connected] ++
        [handshakes, handshake_failures, contexts, suites, warning, notice, info, debug] ++
        ['tlsv1.2', 'tlsv1.3', nodelay, keepalive, sndbuf, recbuf, linger, reuseaddr] ++
        [ipv6_v6only, backlog] ++
        % reasons
        [timeout, closed, cancelled, tls_alert, options, bad_request, protocol_version] ++
        [unknown_command, close_notify, truncated, nxdomain] ++
        % options and what can be wrong with them
        [versions, verify, fail_if_no_peer_cert, verify_client_once, cacerts, cacertfile, crls] ++
        [certfile, keyfile, chain, ciphers, hostname, host, port, family, bind, tcp, tls] ++
        [invalid, required, empty, encrypted, too_long, unsupported, unknown, no_match] ++
        [no_certificate, no_private_key, no_crl, bad_certificate, bad_private_key, bad_crl] ++
        [key_mismatch, key_too_small, digest_too_weak, bad_protocol_name] ++
        % alerts: RFC 8446, 6 and RFC 5246, 7.2, in OTP's words
        [unexpected_message, bad_record_mac, decryption_failed_reserved, record_overflow] ++
        [decompression_failure, handshake_failure, no_certificate_reserved] ++
        [unsupported_certificate, certificate_revoked, certificate_expired] ++
        [certificate_unknown, illegal_parameter, unknown_ca, access_denied, decode_error] ++
        [decrypt_error, export_restriction, insufficient_security, internal_error] ++
        [inappropriate_fallback, user_canceled, no_renegotiation, missing_extension] ++
        [unsupported_extension, certificate_unobtainable, unrecognized_name] ++
        [bad_certificate_status_response, bad_certificate_hash_value] ++
        [unknown_psk_identity, certificate_required, no_application_protocol] ++
        posix_atoms().

posix_atoms() ->
    [e2big, eacces, eaddrinuse, eaddrnotavail, eafnosupport, eagain, ealready, ebadf, ebadmsg] ++
        [ebusy, ecanceled, echild, ecomm, eremoteio, econnaborted, econnrefused] ++
        [econnreset, edeadlk] ++
        [edestaddrreq, edom, edquot, eexist, efault, efbig, ehostdown, ehostunreach, eidrm] ++
        [eilseq, einprogress, eintr, einval, eio, eisconn, eisdir, eloop, emfile, emlink] ++
        [emsgsize, emultihop, enametoolong, enetdown, enetreset, enetunreach, enfile] ++
        [enobufs, enodata, enodev, enoent, enoexec, enolck, enolink, enomem, enomsg] ++
        [enoprotoopt, enospc, enosr, enostr, enosys, enotblk, enotconn, enotdir, enotempty] ++
        [enotrecoverable, enotsock, enotsup, enotty, enxio, eopnotsupp, eoverflow] ++
        [eownerdead, eperm, epfnosupport, epipe, eproto, eprotonosupport, eprototype] ++
        [erange, erofs, eshutdown, esocktnosupport, espipe, esrch, estale, etime, etimedout] ++
        [etoomanyrefs, etxtbsy, eusers, ewouldblock, exdev, einternal, eunknown].
