# frozen_string_literal: true

# What the shadow and its stand-in say to each other. On the control socket the shadow sends a secret, and then frames: kind, id, number, moment, rest,
# size, and `size` bytes. On a new connection it sends an introduction: the secret, its id, its kind, the size of the host's name, the name. Other
# users of the machine can connect, too, and must not be given what was recorded.
module Paceline
  module StandInFrames
    FRAME = "CL>L>Q>L>L>"
    FRAME_SIZE = 25
    # number: of the recording; id: 1 if the connection ends with it; rest: how many bytes come first; the bytes.
    RECORDING = 1
    # id: of the connection; number: of the recording; moment: of the first byte, in monotonic microseconds; rest: microseconds from there to the last.
    ANSWER = 2
    # Is answered with the authority's certificate, DER. Answers: their size (REPLY), and the bytes.
    AUTHORITY = 3
    # Is answered with numbers (COUNTS).
    REPORT = 4
    REPLY = "L>"
    COUNTS = "L>*"

    SECRET_SIZE = 16
    INTRODUCTION = "a16L>CC"
    INTRODUCTION_SIZE = 22
    # Kinds of connections, added up: TLS, and the tunnel of a proxy before it.
    TLS = 1
    TUNNEL = 2
  end
end
