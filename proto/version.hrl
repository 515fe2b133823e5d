%% The version of the wire (PROTOCOL.md), for both sides: CMakeLists.txt reads it from here, too.
-define(ETLS_PROTOCOL_VERSION, 2).
