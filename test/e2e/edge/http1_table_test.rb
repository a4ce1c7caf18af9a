# Every message of test/http1/cases.rb against a real server, with each framing of the body, and in two halves.
require_relative "../support/scenario"
require_relative "../../http1/cases"

class Http1TableTest < Minitest::Test
  include Scenario

  APP = <<~RUBY
    run ->(env) {
      body = env["rack.input"]&.read
      text = "\#{env["REQUEST_METHOD"]} \#{env["REQUEST_URI"]} host=\#{env["HTTP_HOST"]} user=\#{env["HTTP_X_FORWARDED_USER"]} body=\#{body}"
      [200, { "content-type" => "text/plain", "content-length" => text.bytesize.to_s }, [text]]
    }
  RUBY
  FRAMINGS = {
    none: "\r\n",
    length: "Content-Length: 5\r\n\r\nhello",
    chunked: "Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nX-Sum: 1\r\n\r\n"
  }.freeze
  SECOND = "GET /second HTTP/1.1\r\nHost: second\r\nConnection: close\r\n\r\n".freeze

  def test_the_table
    server = serve(app("config.ru" => APP), "-t", "4")
    wrong = []
    sent = 0
    Http1::CASES.each do |row|
      each_message(row) do |framing, bytes|
        sent += 1
        complaint = judge(row, framing, answers(server.exchange_all(bytes + SECOND), row))
        wrong << "#{row.rfc}: #{row.name} (#{framing}): #{complaint}" if complaint
      end
    end
    assert_empty wrong, "#{wrong.size} of #{sent}:\n#{wrong.join("\n")}"
    assert_operator Http1::CASES.size, :>, 250
    assert_operator sent, :>, 500
  end

  # The same when the bytes arrive in two pieces, cut somewhere in the middle. (Every cut is tried in http/strict/tests.rs.)
  def test_the_table_in_two_pieces
    server = serve(app("config.ru" => APP), "-t", "4")
    wrong = Http1::CASES.reject { |row| row.bytes.bytesize > 1000 }.filter_map do |row|
      bytes = row.whole ? row.bytes : row.bytes + FRAMINGS[:length]
      cut = bytes.bytesize * 2 / 3
      complaint = judge(row, row.whole ? :whole : :length, answers(server.exchange_all(bytes[0...cut], bytes[cut..] + SECOND), row))
      "#{row.rfc}: #{row.name}: #{complaint}" if complaint
    end
    assert_empty wrong
  end

  # One line of the access log for a refused message, with the reason.
  def test_a_refusal_is_logged_once
    server = serve(app("config.ru" => APP))
    server.exchange_all("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n")
    server.wait_for(/"- \* HTTP\/1\.1" 400 .*note="refused: A header line begins with whitespace/)
    server.stop
    assert_equal 1, server.output.scan("refused: ").size
  end

  private

  def each_message(row)
    return yield(:whole, row.bytes) if row.whole
    FRAMINGS.each do |framing, rest|
      next if framing == :chunked && row.bytes.include?("HTTP/1.0")
      yield framing, row.bytes + rest
    end
  end

  # [[status, body], ...]
  def answers(bytes, row)
    found = []
    until bytes.empty?
      head, rest = bytes.split("\r\n\r\n", 2)
      return [:broken, bytes] unless rest && (status = head[/\AHTTP\/1\.[01] (\d{3}) /, 1]&.to_i)
      if status == 100
        bytes = rest
        next
      end
      length = row.bytes.start_with?("HEAD") && found.empty? ? 0 : head[/^content-length: (\d+)\r?$/i, 1].to_i
      found << [status, rest.byteslice(0, length), head]
      bytes = rest.byteslice(length..)
    end
    found
  end

  def judge(row, framing, answers)
    return "no answer" if answers.empty?
    return "broken answer #{answers}" if answers[0] == :broken
    (status, body, head), second, third = answers
    return "#{status} instead of #{row.status}: #{body}" unless status == row.status
    return "a third answer" if third
    if row.after == :open
      return "no answer to the second request" unless second && second[1].include?(" /second host=second")
    elsif second
      return "the connection went on: #{second[0]} #{second[1]}"
    end
    return "no Connection: close" if status >= 400 && !head.match?(/^connection: close\r?$/i)
    return "#{body.inspect} is not #{row.saw}" if row.saw && !body.match?(row.saw)
    body_came = framing == :whole || framing == :none || status != 200 || body.end_with?("body=hello")
    "the body did not come: #{body}" unless body_came
  end
end

class Scenario::Server
  # Sends the pieces, each in a segment of its own, and reads until the close.
  def exchange_all(*pieces)
    connect do |socket|
      pieces.each do |piece|
        socket.write(piece)
      rescue Errno::EPIPE, Errno::ECONNRESET
        break
      end
      answer = "".b
      loop { answer << socket.readpartial(65_536) }
    rescue EOFError, Errno::ECONNRESET
      answer
    end
  end
end
