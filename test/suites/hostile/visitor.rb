# frozen_string_literal: true

# Somebody who asks all the while, on a connection that is kept, and notes what was no answer to his question.
class Visitor
  # What each request has that asks for an answer of its own.
  TOKEN = /~[a-z]+\d+~/

  # Whether the behaviour that is tried may cost others their answer. It never gives them another one.
  attr_accessor :felt

  # Whether a worker is spoilt for good: then answers may be wrong, but are nobody else's.
  attr_accessor :spoilt

  # What went wrong, in words.
  attr_reader :wrongs

  def initialize(server)
    @server = server
    @wrongs = []
    @counts = Hash.new(0)
    @felt = true
    @thread = Thread.new { ask until @leaving }
  end

  # Ends; returns how many got what.
  def leave
    @leaving = true
    @thread.join
    @socket&.close
    @counts.map { |what, count| "#{count} of #{what}" }.join(", ")
  end

  private

  def ask
    token = "~visitor#{rand(1 << 40)}~"
    @socket ||= @server.connect
    felt = @felt
    @socket.write("GET /good?#{token} HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = Timeout.timeout(Scenario::PATIENCE) { Wire.response(@socket) }
    judge(answer, token, felt || @felt)
    close if answer["connection"]&.casecmp?("close")
    sleep 0.002
  rescue EOFError, SystemCallError => e
    @counts[e.class] += 1
    @wrongs << "another visitor's connection ended (#{e.message})" unless felt || @felt
    close
  rescue StandardError => e
    @wrongs << "another visitor got #{e.class}: #{e.message[0, 300]}"
    close
  end

  def judge(answer, token, felt)
    @counts[answer.status] += 1
    return if answer.status == 200 && answer.body == token
    return if (@spoilt || felt && answer.status >= 500) && answer.body.scan(TOKEN).all?(token)
    @wrongs << "another visitor got #{answer.status} #{answer.body[0, 200].inspect} for #{token}"
  end

  def close
    @socket&.close
    @socket = nil
  end
end
