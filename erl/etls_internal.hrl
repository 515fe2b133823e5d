%% Terms shared by the processes. Nothing here is for users: they see opaque sockets.

%% The very term that connect/accept return and that messages carry. It has no lane in it, because
%% a lane is a value that a connection gets after its handshake (see etls_registry).
-record(etls_socket, {
    pid :: pid(),
    ref :: reference(),
    face :: etls_face:face()
}).

-record(etls_listener, {
    pid :: pid(),
    ref :: reference(),
    face :: etls_face:face()
}).

%% Stream options: the ones that act on the VM's side of a connection.
-record(stream, {
    active = false :: boolean() | once | integer(),
    mode = binary :: binary | list,
    packet = raw :: etls_packet:type(),
    packet_size = 0 :: non_neg_integer(),
    exit_on_close = true :: boolean(),
    send_timeout = infinity :: timeout(),
    send_timeout_close = false :: boolean(),
    %% Bytes read from the lane per system call. Measured: 1460, inet's default, costs 6 times the
    %% CPU per GB; beyond 128 KiB nothing is gained.
    buffer = 131072 :: pos_integer(),
    %% default: the application's.
    lane = default :: default | etls_lane:choice()
}).
