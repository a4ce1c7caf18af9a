# The table of good, bad and ambiguous HTTP/1.1 messages, byte by byte, with the section that decides each. Data only:
# test/e2e/edge/http1_table_test.rb sends them to a real server.
#
# A row of `heads` is a head without its empty line; it is sent with each framing of the body (none, Content-Length, chunked).
# A row of `whole` is everything that is sent. Behind each follows a second request, which is answered only if the first left
# the connection open (:open) and ended where it should: a row that expects :close expects no second answer.
module Http1
  Case = Struct.new(:rfc, :name, :bytes, :status, :after, :saw, :whole, keyword_init: true)
  CASES = []
  HOST = "Host: a\r\n".freeze
  GET = "GET / HTTP/1.1\r\n#{HOST}".freeze
  POST = "POST / HTTP/1.1\r\n#{HOST}".freeze
  CHUNKED = "#{POST}Transfer-Encoding: chunked\r\n\r\n".freeze

  def self.heads(rfc, rows) = add(rfc, rows, false)

  def self.whole(rfc, rows) = add(rfc, rows, true)

  def self.add(rfc, rows, whole)
    rows.each do |name, bytes, status, after, saw|
      CASES << Case.new(rfc: rfc, name: name, bytes: bytes.b, status: status, after: after || (status == 200 ? :open : :close), saw: saw, whole: whole)
    end
  end

  # --- RFC 9112 section 2.2: lines ---
  heads "RFC 9112 2.2", [
    ["plain", GET, 200],
    ["one empty line before", "\r\n#{GET}", 200],
    ["two empty lines before", "\r\n\r\n#{GET}", 400],
    ["a bare LF before", "\n#{GET}", 400],
    ["a bare CR before", "\r#{GET}", 400],
    ["a space before", " #{GET}", 400],
    ["request line ends with LF", "GET / HTTP/1.1\n#{HOST}", 400],
    ["request line ends with CR", "GET / HTTP/1.1\r#{HOST}", 400],
    ["request line ends with CR CR LF", "GET / HTTP/1.1\r\r\n#{HOST}", 400],
    ["field line ends with LF", "GET / HTTP/1.1\r\nHost: a\nX: y\r\n", 400],
    ["field line ends with CR", "GET / HTTP/1.1\r\nHost: a\rX: y\r\n", 400],
    ["field line ends with CR CR LF", "GET / HTTP/1.1\r\nHost: a\r\r\n", 400],
    ["bare CR inside a value", "#{GET}X: a\rb\r\n", 400],
    ["bare CR at the end of a value", "#{GET}X: a\r\r\n", 400],
    ["bare CR inside a name", "#{GET}X\rY: a\r\n", 400],
    ["bare CR in the target", "GET /a\rb HTTP/1.1\r\n#{HOST}", 400],
    ["the first field line begins with a space", "GET / HTTP/1.1\r\n #{HOST}", 400],
    ["the first field line begins with a tab", "GET / HTTP/1.1\r\n\t#{HOST}", 400]
  ]
  whole "RFC 9112 2.2", [
    ["empty line is LF", "#{GET}\n", 400],
    ["empty line is CR CR LF", "#{GET}\r\r\n", 400],
    ["all LF", "GET / HTTP/1.1\nHost: a\n\n", 400],
    ["not HTTP: TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400],
    ["not HTTP: SSH", "SSH-2.0-OpenSSH_9.2\r\n\r\n", 400],
    ["not HTTP: words", "hello\r\n\r\n", 400]
  ]

  # --- RFC 9112 section 3: the request line ---
  heads "RFC 9112 3", [
    ["two spaces after the method", "GET  / HTTP/1.1\r\n#{HOST}", 400],
    ["two spaces before the version", "GET /  HTTP/1.1\r\n#{HOST}", 400],
    ["a space after the version", "GET / HTTP/1.1 \r\n#{HOST}", 400],
    ["a tab after the method", "GET\t/ HTTP/1.1\r\n#{HOST}", 400],
    ["a tab before the version", "GET /\tHTTP/1.1\r\n#{HOST}", 400],
    ["a space in the target", "GET /a b HTTP/1.1\r\n#{HOST}", 400],
    ["a fourth word", "GET / HTTP/1.1 x\r\n#{HOST}", 400],
    ["no target", "GET HTTP/1.1\r\n#{HOST}", 400],
    ["an empty target", "GET  HTTP/1.1\r\n#{HOST}", 400],
    ["method alone", "GET\r\n#{HOST}", 400],
    ["HTTP/0.9", "GET /\r\n", 400],
    ["a form feed between", "GET\f/ HTTP/1.1\r\n#{HOST}", 400]
  ]
  heads "RFC 9110 9.1, RFC 9112 3.1", [
    ["a method nobody knows", "FROBNICATE / HTTP/1.1\r\n#{HOST}", 200, nil, /\AFROBNICATE /],
    ["methods are case-sensitive", "get / HTTP/1.1\r\n#{HOST}", 200, nil, /\Aget /],
    ["every other character of a token", "!#$%&'*+-.^_`|~ / HTTP/1.1\r\n#{HOST}", 200],
    ["32 letters", "#{"M" * 32} / HTTP/1.1\r\n#{HOST}", 200],
    ["33 letters", "#{"M" * 33} / HTTP/1.1\r\n#{HOST}", 501],
    ["a colon in the method", "G:T / HTTP/1.1\r\n#{HOST}", 400],
    ["a slash in the method", "G/T / HTTP/1.1\r\n#{HOST}", 400],
    ["a quote in the method", "\"GET\" / HTTP/1.1\r\n#{HOST}", 400],
    ["NUL in the method", "G\0T / HTTP/1.1\r\n#{HOST}", 400],
    ["8 bits in the method", "G\xc3\x89T / HTTP/1.1\r\n#{HOST}", 400],
    ["an empty method", " / HTTP/1.1\r\n#{HOST}", 400]
  ]
  heads "RFC 9112 2.3", [
    ["HTTP/1.0 closes", "GET / HTTP/1.0\r\n#{HOST}", 200, :close],
    ["HTTP/1.0 with keep-alive stays", "GET / HTTP/1.0\r\n#{HOST}Connection: keep-alive\r\n", 200, :open],
    ["HTTP/1.2", "GET / HTTP/1.2\r\n#{HOST}", 505],
    ["HTTP/1.9", "GET / HTTP/1.9\r\n#{HOST}", 505],
    ["HTTP/2.0", "GET / HTTP/2.0\r\n#{HOST}", 505],
    ["HTTP/0.9 by name", "GET / HTTP/0.9\r\n#{HOST}", 505],
    ["HTTP/3.0", "GET / HTTP/3.0\r\n#{HOST}", 505],
    ["HTTP/1.10", "GET / HTTP/1.10\r\n#{HOST}", 400],
    ["HTTP/01.1", "GET / HTTP/01.1\r\n#{HOST}", 400],
    ["HTTP/1", "GET / HTTP/1\r\n#{HOST}", 400],
    ["HTTP/2", "GET / HTTP/2\r\n#{HOST}", 400],
    ["HTTP/1.", "GET / HTTP/1.\r\n#{HOST}", 400],
    ["HTTP/1,1", "GET / HTTP/1,1\r\n#{HOST}", 400],
    ["HTTP/+1.1", "GET / HTTP/+1.1\r\n#{HOST}", 400],
    ["HTTP/1.a", "GET / HTTP/1.a\r\n#{HOST}", 400],
    ["lower case", "GET / http/1.1\r\n#{HOST}", 400],
    ["HTTPS/1.1", "GET / HTTPS/1.1\r\n#{HOST}", 400],
    ["ICY", "GET / ICY/1.1\r\n#{HOST}", 400],
    ["a tab after the version", "GET / HTTP/1.1\t\r\n#{HOST}", 400],
    ["NUL after the version", "GET / HTTP/1.1\0\r\n#{HOST}", 400]
  ]

  # --- RFC 9112 section 3.2: the target ---
  heads "RFC 9112 3.2.1", [
    ["path and query", "GET /a/b;c=d?e=f&g HTTP/1.1\r\n#{HOST}", 200, nil, %r{ /a/b;c=d\?e=f&g }],
    ["percent-encoding is kept", "GET /%41%2f%00 HTTP/1.1\r\n#{HOST}", 200, nil, %r{ /%41%2f%00 }],
    ["two slashes are a path, not a host", "GET //evil.test/x HTTP/1.1\r\n#{HOST}", 200, nil, %r{ //evil.test/x host=a }],
    ["a question mark in the query", "GET /?a?b HTTP/1.1\r\n#{HOST}", 200],
    ["what browsers leave unencoded in a query", "GET /?a[]={b}|c^d`e\\f HTTP/1.1\r\n#{HOST}", 200],
    ["what browsers leave unencoded in a path", "GET /a[0]|{b}^ HTTP/1.1\r\n#{HOST}", 200],
    ["a colon", "GET /a:b@c HTTP/1.1\r\n#{HOST}", 200],
    ["a fragment", "GET /a#b HTTP/1.1\r\n#{HOST}", 400],
    ["a fragment after the query", "GET /a?b#c HTTP/1.1\r\n#{HOST}", 400],
    ["an angle bracket in the path", "GET /<script> HTTP/1.1\r\n#{HOST}", 400],
    ["an angle bracket in the query", "GET /?<script> HTTP/1.1\r\n#{HOST}", 400],
    ["a grave accent in the path", "GET /` HTTP/1.1\r\n#{HOST}", 400],
    ["a quote in the query", "GET /?\"a\" HTTP/1.1\r\n#{HOST}", 400],
    ["UTF-8 in the path", "GET /\xc3\xa9 HTTP/1.1\r\n#{HOST}", 200, nil, %r{ /%C3%A9 host=a }],
    ["Latin-1 in path and query", "GET /\xe9?\xff HTTP/1.1\r\n#{HOST}", 200, nil, %r{ /%E9\?%FF host=a }],
    ["UTF-8 in the host of an absolute target", "GET http://\xc3\xa9/ HTTP/1.1\r\n#{HOST}", 400],
    ["NUL", "GET /\0 HTTP/1.1\r\n#{HOST}", 400],
    ["DEL", "GET /\x7f HTTP/1.1\r\n#{HOST}", 400],
    ["a tab", "GET /a\tb HTTP/1.1\r\n#{HOST}", 400],
    ["a vertical tab", "GET /a\vb HTTP/1.1\r\n#{HOST}", 400],
    ["no slash at the front", "GET a HTTP/1.1\r\n#{HOST}", 400],
    ["a query alone", "GET ?a HTTP/1.1\r\n#{HOST}", 400]
  ]
  heads "RFC 9112 3.2.2", [
    ["absolute form, same host", "GET http://a/x?y HTTP/1.1\r\n#{HOST}", 200, nil, %r{ /x\?y host=a }],
    ["absolute form, the scheme's own port", "GET http://a:80/ HTTP/1.1\r\n#{HOST}", 200],
    ["absolute form, other letter case", "GET HTTP://A/ HTTP/1.1\r\n#{HOST}", 200],
    ["absolute form without a path", "GET http://a HTTP/1.1\r\n#{HOST}", 200],
    ["absolute form with query alone", "GET http://a?x HTTP/1.1\r\n#{HOST}", 200],
    ["absolute form, another host", "GET http://b/ HTTP/1.1\r\n#{HOST}", 400],
    ["absolute form, another port", "GET http://a:81/ HTTP/1.1\r\n#{HOST}", 400],
    ["absolute form, no Host", "GET http://a/ HTTP/1.1\r\n", 400],
    ["absolute form, empty Host", "GET http://a/ HTTP/1.1\r\nHost:\r\n", 400],
    ["absolute form, user information", "GET http://u:p@a/ HTTP/1.1\r\n#{HOST}", 400],
    ["absolute form, user information in both", "GET http://u@a/ HTTP/1.1\r\nHost: u@a\r\n", 400],
    ["absolute form, no host", "GET http:///x HTTP/1.1\r\nHost:\r\n", 400],
    ["absolute form, a port alone", "GET http://:80/ HTTP/1.1\r\nHost: :80\r\n", 400],
    ["absolute form, another scheme", "GET ftp://a/ HTTP/1.1\r\n#{HOST}", 400],
    ["absolute form, one slash", "GET http:/a HTTP/1.1\r\n#{HOST}", 400],
    ["absolute form, a port too large", "GET http://a:65536/ HTTP/1.1\r\nHost: a:65536\r\n", 400],
    ["absolute form, a fragment", "GET http://a/#x HTTP/1.1\r\n#{HOST}", 400],
    ["absolute form, percent-encoded host", "GET http://%61/ HTTP/1.1\r\nHost: %61\r\n", 400],
    ["absolute form in HTTP/1.0 without Host", "GET http://a/ HTTP/1.0\r\n", 200, :close, / host=a /]
  ]
  heads "RFC 9112 3.2.3, RFC 9110 9.3.6", [
    ["CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n", 501],
    ["CONNECT with a path", "CONNECT / HTTP/1.1\r\n#{HOST}", 501],
    ["authority form for another method", "GET a:80 HTTP/1.1\r\nHost: a:80\r\n", 400]
  ]
  heads "RFC 9112 3.2.4", [
    ["OPTIONS *", "OPTIONS * HTTP/1.1\r\n#{HOST}", 200],
    ["GET *", "GET * HTTP/1.1\r\n#{HOST}", 400],
    ["OPTIONS **", "OPTIONS ** HTTP/1.1\r\n#{HOST}", 400]
  ]
  heads "RFC 9112 3", [
    ["a target of 8192 bytes", "GET /#{"a" * 8191} HTTP/1.1\r\n#{HOST}", 200],
    ["a target of 8193 bytes", "GET /#{"a" * 8192} HTTP/1.1\r\n#{HOST}", 414],
    ["a query that is too long", "GET /?#{"a" * 9000} HTTP/1.1\r\n#{HOST}", 414]
  ]
  whole "RFC 9112 3", [["a request line without end", "GET /#{"a" * 20_000}", 414]]

  # --- RFC 9112 section 3.2, RFC 9110 section 7.2: Host ---
  heads "RFC 9112 3.2", [
    ["no Host", "GET / HTTP/1.1\r\nX: y\r\n", 400],
    ["no field at all", "GET / HTTP/1.1\r\n", 400],
    ["no Host in HTTP/1.0", "GET / HTTP/1.0\r\n", 200, :close],
    ["an empty Host", "GET / HTTP/1.1\r\nHost:\r\n", 200],
    ["two Hosts", "#{GET}Host: b\r\n", 400],
    ["two equal Hosts", "#{GET}#{HOST}", 400],
    ["two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\n#{HOST}#{HOST}", 400],
    ["two Hosts in different letters", "#{GET}hOST: a\r\n", 400],
    ["two hosts in one field", "GET / HTTP/1.1\r\nHost: a b\r\n", 400],
    ["a port", "GET / HTTP/1.1\r\nHost: a:3000\r\n", 200, nil, / host=a:3000 /],
    ["an empty port", "GET / HTTP/1.1\r\nHost: a:\r\n", 200],
    ["a port that is no number", "GET / HTTP/1.1\r\nHost: a:x\r\n", 400],
    ["a signed port", "GET / HTTP/1.1\r\nHost: a:+80\r\n", 400],
    ["a port too large", "GET / HTTP/1.1\r\nHost: a:70000\r\n", 400],
    ["two ports", "GET / HTTP/1.1\r\nHost: a:80:80\r\n", 400],
    ["IPv4", "GET / HTTP/1.1\r\nHost: 127.0.0.1:80\r\n", 200],
    ["IPv6", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n", 200],
    ["IPv6 without brackets", "GET / HTTP/1.1\r\nHost: ::1\r\n", 400],
    ["IPv6 without its end", "GET / HTTP/1.1\r\nHost: [::1\r\n", 400],
    ["brackets around no address", "GET / HTTP/1.1\r\nHost: [a]\r\n", 400],
    ["a path", "GET / HTTP/1.1\r\nHost: a/b\r\n", 400],
    ["a URI", "GET / HTTP/1.1\r\nHost: http://a\r\n", 400],
    ["user information", "GET / HTTP/1.1\r\nHost: u@a\r\n", 400],
    ["a query", "GET / HTTP/1.1\r\nHost: a?b\r\n", 400],
    ["a fragment", "GET / HTTP/1.1\r\nHost: a#b\r\n", 400],
    ["a backslash", "GET / HTTP/1.1\r\nHost: a\\b\r\n", 400],
    ["quotes", "GET / HTTP/1.1\r\nHost: \"a\"\r\n", 400],
    ["8 bits", "GET / HTTP/1.1\r\nHost: \xc3\xa9\r\n", 400],
    ["a tab inside", "GET / HTTP/1.1\r\nHost: a\tb\r\n", 400],
    ["whitespace around", "GET / HTTP/1.1\r\nHost: \t a \t\r\n", 200, nil, / host=a /],
    ["an underscore", "GET / HTTP/1.1\r\nHost: a_b.test\r\n", 200]
  ]

  # --- RFC 9112 section 5: field lines ---
  heads "RFC 9112 5", [
    ["no whitespace after the colon", "#{GET}X:y\r\n", 200],
    ["an empty value", "#{GET}X:\r\n", 200],
    ["whitespace is the value", "#{GET}X: \t \r\n", 200],
    ["a colon in the value", "#{GET}X: a:b\r\n", 200],
    ["8 bits in the value", "#{GET}X: \xff\xc3\xa9\r\n", 200],
    ["a tab in the value", "#{GET}X: a\tb\r\n", 200],
    ["every character of a name", "#{GET}!#$%&'*+-.^_`|~09azAZ: y\r\n", 200],
    ["no colon", "#{GET}X y\r\n", 400],
    ["a name alone", "#{GET}X\r\n", 400],
    ["no name", "#{GET}: y\r\n", 400],
    ["a colon alone", "#{GET}:\r\n", 400],
    ["8 bits in the name", "#{GET}\xc3\xa9: y\r\n", 400],
    ["a slash in the name", "#{GET}X/Y: z\r\n", 400],
    ["quotes around the name", "#{GET}\"X\": y\r\n", 400],
    ["brackets in the name", "#{GET}X[1]: y\r\n", 400],
    ["NUL in the name", "#{GET}X\0: y\r\n", 400]
  ]
  heads "RFC 9112 5.1", [
    ["a space before the colon", "#{GET}X : y\r\n", 400],
    ["a tab before the colon", "#{GET}X\t: y\r\n", 400],
    ["a space before the colon of Host", "GET / HTTP/1.1\r\nHost : a\r\n", 400],
    ["a space inside the name", "#{GET}X Y: z\r\n", 400]
  ]
  heads "RFC 9112 5.2", [
    ["folded with a space", "#{GET}X: a\r\n b\r\n", 400],
    ["folded with a tab", "#{GET}X: a\r\n\tb\r\n", 400],
    ["folded to nothing", "#{GET}X: a\r\n \r\n", 400],
    ["a folded Host", "GET / HTTP/1.1\r\nHost:\r\n a\r\n", 400]
  ]
  heads "RFC 9110 5.5", ((0..31).to_a - [9, 10, 13] + [127]).map { |byte|
    [format("control character %02x in a value", byte), "#{GET}X: a#{byte.chr}b\r\n", 400]
  }
  heads "RFC 9110 5.4, RFC 6585 5", [
    ["100 fields", "GET / HTTP/1.1\r\n#{HOST}#{"X: y\r\n" * 98}", 200],
    ["102 fields", "GET / HTTP/1.1\r\n#{HOST}#{"X: y\r\n" * 101}", 431],
    ["30 KB of fields", "#{GET}X: #{"y" * 30_000}\r\n", 200],
    ["33 KB in one field", "#{GET}X: #{"y" * 33_000}\r\n", 431],
    ["33 KB in many fields", "#{GET}#{"X: #{"y" * 990}\r\n" * 34}", 431]
  ]
  whole "RFC 9110 5.4, RFC 6585 5", [["a field without end", "#{GET}X: #{"y" * 70_000}", 431]]

  # --- RFC 9112 section 6: how long the body is ---
  whole "RFC 9112 6.3, RFC 9110 8.6", [
    ["Content-Length: 0", "#{POST}Content-Length: 0\r\n\r\n", 200, nil, /body=\z/],
    ["leading zeros", "#{POST}Content-Length: 0005\r\n\r\nhello", 200, nil, /body=hello\z/],
    ["whitespace around", "#{POST}Content-Length: \t5 \r\n\r\nhello", 200, nil, /body=hello\z/],
    ["no whitespace", "#{POST}content-length:5\r\n\r\nhello", 200, nil, /body=hello\z/],
    ["a body of GET", "#{GET}Content-Length: 5\r\n\r\nhello", 200, nil, /body=hello\z/],
    ["a body that looks like a request", "#{POST}Content-Length: 18\r\n\r\nGET /x HTTP/1.1\r\n\n", 200, nil, /body=GET/],
    ["without a length there is no body", "#{POST}\r\n", 200, nil, /body=\z/],
    ["HTTP/1.0 with a length", "POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", 200, nil, /body=hello\z/],
    ["empty", "#{POST}Content-Length:\r\n\r\n", 400],
    ["+5", "#{POST}Content-Length: +5\r\n\r\nhello", 400],
    ["-5", "#{POST}Content-Length: -5\r\n\r\nhello", 400],
    ["-0", "#{POST}Content-Length: -0\r\n\r\n", 400],
    ["0x5", "#{POST}Content-Length: 0x5\r\n\r\nhello", 400],
    ["hexadecimal", "#{POST}Content-Length: a\r\n\r\n0123456789", 400],
    ["5.0", "#{POST}Content-Length: 5.0\r\n\r\nhello", 400],
    ["5e0", "#{POST}Content-Length: 5e0\r\n\r\nhello", 400],
    ["1_0", "#{POST}Content-Length: 1_0\r\n\r\n0123456789", 400],
    ["with a space inside", "#{POST}Content-Length: 1 0\r\n\r\n0123456789", 400],
    ["quoted", "#{POST}Content-Length: \"5\"\r\n\r\nhello", 400],
    ["5;", "#{POST}Content-Length: 5;\r\n\r\nhello", 400],
    ["other digits", "#{POST}Content-Length: \xd9\xa5\r\n\r\nhello", 400],
    ["a vertical tab before", "#{POST}Content-Length: \v5\r\n\r\nhello", 400],
    ["over 64 bits", "#{POST}Content-Length: 18446744073709551617\r\n\r\nhello", 400],
    ["over 64 bits by far", "#{POST}Content-Length: #{"9" * 400}\r\n\r\nhello", 400],
    ["a list of equals", "#{POST}Content-Length: 5, 5\r\n\r\nhello", 400],
    ["a list of others", "#{POST}Content-Length: 5, 6\r\n\r\nhello!", 400],
    ["a list with an empty member", "#{POST}Content-Length: 5,\r\n\r\nhello", 400],
    ["two equal fields", "#{POST}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400],
    ["two other fields", "#{POST}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400],
    ["two fields, 0 first", "#{POST}Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello", 400],
    ["two fields in different letters", "#{POST}Content-Length: 5\r\ncONTENT-lENGTH: 5\r\n\r\nhello", 400],
    ["a space before the colon", "#{POST}Content-Length : 5\r\n\r\nhello", 400],
    ["folded", "#{POST}Content-Length:\r\n 5\r\n\r\nhello", 400]
  ]
  whole "RFC 9112 6.1", [
    ["chunked", "#{CHUNKED}5\r\nhello\r\n0\r\n\r\n", 200, nil, /body=hello\z/],
    ["Chunked in capitals", "#{POST}Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", 200],
    ["whitespace around", "#{POST}Transfer-Encoding: \t chunked \r\n\r\n0\r\n\r\n", 200],
    ["chunked for GET", "#{GET}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, nil, /body=hello\z/],
    ["and Content-Length", "#{POST}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400],
    ["Content-Length and", "#{POST}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400],
    ["and Content-Length: 0", "#{POST}Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400],
    ["identity and Content-Length", "#{POST}Content-Length: 5\r\nTransfer-Encoding: identity\r\n\r\nhello", 400],
    ["a fake chunked and Content-Length", "#{POST}Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n\r\nhello", 400],
    ["HTTP/1.0", "POST / HTTP/1.0\r\n#{HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400],
    ["HTTP/1.0 with keep-alive", "POST / HTTP/1.0\r\n#{HOST}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400],
    ["gzip, chunked", "#{POST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501],
    ["gzip and chunked in two fields", "#{POST}Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501],
    ["identity, chunked", "#{POST}Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", 501],
    ["a vertical tab before", "#{POST}Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", 400],
    ["a space before the colon", "#{POST}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400],
    ["folded", "#{POST}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400]
  ]
  whole "RFC 9112 6.3", [
    ["chunked, gzip", "#{POST}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400],
    ["chunked, identity", "#{POST}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400],
    ["chunked, chunked", "#{POST}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400],
    ["chunked twice", "#{POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400],
    ["chunked and identity in two fields", "#{POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 400],
    ["gzip", "#{POST}Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n", 400],
    ["identity", "#{POST}Transfer-Encoding: identity\r\n\r\n", 400],
    ["nothing", "#{POST}Transfer-Encoding:\r\n\r\n0\r\n\r\n", 400],
    ["a comma", "#{POST}Transfer-Encoding: ,\r\n\r\n0\r\n\r\n", 400],
    ["chunked and a comma", "#{POST}Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n", 400],
    ["a comma and chunked", "#{POST}Transfer-Encoding: , chunked\r\n\r\n0\r\n\r\n", 400],
    ["a parameter", "#{POST}Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", 400],
    ["quoted", "#{POST}Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 400],
    ["chunke", "#{POST}Transfer-Encoding: chunke\r\n\r\n0\r\n\r\n", 400],
    ["chunked with a word", "#{POST}Transfer-Encoding: chunked x\r\n\r\n0\r\n\r\n", 400]
  ]

  # --- RFC 9112 section 7.1: chunks ---
  whole "RFC 9112 7.1", [
    ["several chunks", "#{CHUNKED}1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", 200, nil, /body=abc\z/],
    ["hexadecimal in both cases", "#{CHUNKED}a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", 200, nil, /body=(0123456789){2}\z/],
    ["leading zeros", "#{CHUNKED}0000000000000005\r\nhello\r\n000\r\n\r\n", 200, nil, /body=hello\z/],
    ["no chunk but the last", "#{CHUNKED}0\r\n\r\n", 200, nil, /body=\z/],
    ["data that looks like a last chunk", "#{CHUNKED}5\r\n0\r\n\r\n\r\n0\r\n\r\n", 200],
    ["no size", "#{CHUNKED}\r\nhello\r\n0\r\n\r\n", 400],
    ["a size that is no number", "#{CHUNKED}x\r\nhello\r\n0\r\n\r\n", 400],
    ["0x5", "#{CHUNKED}0x5\r\nhello\r\n0\r\n\r\n", 400],
    ["+5", "#{CHUNKED}+5\r\nhello\r\n0\r\n\r\n", 400],
    ["-1", "#{CHUNKED}-1\r\nhello\r\n0\r\n\r\n", 400],
    ["5h", "#{CHUNKED}5h\r\nhello\r\n0\r\n\r\n", 400],
    ["1_0", "#{CHUNKED}1_0\r\nhello\r\n0\r\n\r\n", 400],
    ["a space before the size", "#{CHUNKED} 5\r\nhello\r\n0\r\n\r\n", 400],
    ["a space after the size", "#{CHUNKED}5 \r\nhello\r\n0\r\n\r\n", 400],
    ["a tab after the size", "#{CHUNKED}5\t\r\nhello\r\n0\r\n\r\n", 400],
    ["17 digits", "#{CHUNKED}00000000000000005\r\nhello\r\n0\r\n\r\n", 400],
    ["a size over 64 bits", "#{CHUNKED}10000000000000005\r\nhello\r\n0\r\n\r\n", 400],
    ["a size of 64 bits", "#{CHUNKED}ffffffffffffffff\r\nhello\r\n0\r\n\r\n", 400],
    ["size ends with LF", "#{CHUNKED}5\nhello\r\n0\r\n\r\n", 400],
    ["size ends with CR", "#{CHUNKED}5\rhello\r\n0\r\n\r\n", 400],
    ["data ends with LF", "#{CHUNKED}5\r\nhello\n0\r\n\r\n", 400],
    ["data ends with CR", "#{CHUNKED}5\r\nhello\r0\r\n\r\n", 400],
    ["data without an end", "#{CHUNKED}5\r\nhello0\r\n\r\n", 400],
    ["data too long", "#{CHUNKED}5\r\nhello!\r\n0\r\n\r\n", 400],
    ["data too short", "#{CHUNKED}6\r\nhello\r\n0\r\n\r\n", 400],
    ["the last chunk ends with LF", "#{CHUNKED}0\n\r\n", 400],
    ["the end is LF", "#{CHUNKED}0\r\n\n", 400],
    ["the end is CR and more", "#{CHUNKED}0\r\n\rx", 400],
    ["NUL in the size", "#{CHUNKED}5\0\r\nhello\r\n0\r\n\r\n", 400]
  ]
  whole "RFC 9112 7.1.1", [
    ["an extension", "#{CHUNKED}5;a\r\nhello\r\n0\r\n\r\n", 200, nil, /body=hello\z/],
    ["an extension with a value", "#{CHUNKED}5;a=b;c=\"d;e\"\r\nhello\r\n0;x\r\n\r\n", 200, nil, /body=hello\z/],
    ["whitespace around the semicolon", "#{CHUNKED}5 ; a = b\r\nhello\r\n0\r\n\r\n", 200, nil, /body=hello\z/],
    ["a semicolon alone", "#{CHUNKED}5;\r\nhello\r\n0\r\n\r\n", 400],
    ["no name", "#{CHUNKED}5;=b\r\nhello\r\n0\r\n\r\n", 400],
    ["LF in an extension", "#{CHUNKED}5;a\nhello\r\n0\r\n\r\n", 400],
    ["CR in an extension", "#{CHUNKED}5;a\rb\r\nhello\r\n0\r\n\r\n", 400],
    ["NUL in an extension", "#{CHUNKED}5;a\0\r\nhello\r\n0\r\n\r\n", 400],
    ["9 KB of extension", "#{CHUNKED}5;#{"a" * 9000}\r\nhello\r\n0\r\n\r\n", 400],
    ["9 KB of extensions of many chunks", "#{CHUNKED}#{"1;#{"a" * 450}\r\nx\r\n" * 20}0\r\n\r\n", 400]
  ]
  whole "RFC 9112 7.1.2, RFC 9110 6.5.1", [
    ["a trailer", "#{CHUNKED}5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", 200, nil, /body=hello\z/],
    ["trailers that frame or name the host are ignored", "#{CHUNKED}0\r\nContent-Length: 9\r\nTransfer-Encoding: x\r\nHost: b\r\n\r\n", 200, nil, / host=a /],
    ["a trailer that names the user is ignored", "#{CHUNKED}0\r\nX-Forwarded-User: root\r\n\r\n", 200, nil, / user= /],
    ["a space before the colon", "#{CHUNKED}0\r\nX : y\r\n\r\n", 400],
    ["no colon", "#{CHUNKED}0\r\nX\r\n\r\n", 400],
    ["no name", "#{CHUNKED}0\r\n: y\r\n\r\n", 400],
    ["folded", "#{CHUNKED}0\r\nX: a\r\n b\r\n\r\n", 400],
    ["ends with LF", "#{CHUNKED}0\r\nX: a\nY: b\r\n\r\n", 400],
    ["a bare CR", "#{CHUNKED}0\r\nX: a\rb\r\n\r\n", 400],
    ["NUL", "#{CHUNKED}0\r\nX: a\0\r\n\r\n", 400],
    ["9 KB of trailers", "#{CHUNKED}0\r\nX: #{"a" * 9000}\r\n\r\n", 431],
    ["101 trailers", "#{CHUNKED}0\r\n#{"X: y\r\n" * 101}\r\n", 431]
  ]

  # --- RFC 9112 section 9: the connection ---
  heads "RFC 9112 9.6", [
    ["close", "#{GET}Connection: close\r\n", 200, :close],
    ["close in a list", "#{GET}Connection: x, CLOSE\r\n", 200, :close],
    ["close and keep-alive", "#{GET}Connection: close\r\nConnection: keep-alive\r\n", 200, :close],
    ["keep-alive is nothing new", "#{GET}Connection: keep-alive\r\n", 200],
    ["another option", "#{GET}Connection: x\r\n", 200]
  ]
  heads "RFC 9110 7.8", [
    ["an upgrade that is not made", "#{GET}Connection: upgrade\r\nUpgrade: frob\r\n", 200],
    ["h2c by upgrade is not made", "#{GET}Connection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n", 200],
    ["an upgrade in HTTP/1.0 is ignored", "GET / HTTP/1.0\r\n#{HOST}Connection: upgrade\r\nUpgrade: frob\r\n", 200, :close]
  ]
  heads "RFC 9110 10.1.1", [["100-continue by a client that does not wait", "#{GET}Expect: 100-continue\r\n", 200]]
  whole "RFC 9110 9.3.2", [["HEAD has no content", "HEAD / HTTP/1.1\r\n#{HOST}\r\n", 200]]
end
