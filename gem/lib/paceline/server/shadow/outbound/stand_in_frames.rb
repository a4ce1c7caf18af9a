# frozen_string_literal: true

# What the shadow and its stand-in say to each other. On the control socket the shadow sends frames: kind, id, number, moment, rest, size, and `size`
# bytes. On a new connection it sends an introduction: its id, its kind, the size of the host's name, the name.
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

    INTRODUCTION = "L>CC"
    INTRODUCTION_SIZE = 6
    # Kinds of connections, added up: TLS, and the tunnel of a proxy before it.
    TLS = 1
    TUNNEL = 2
  end
end
