# A body of many small pieces on its way to a client: a write for each, as servers do it that send what they get, beside one write of all, as Paceline does it.
# The client is a process of its own, which counts the bytes.
class OneWriteStory < Story
  self.title = "A page of 1,300 lines is one write"
  self.slow = "The application has its page ready, and the browser still waits: a body that gives its lines one by one costs a system call and a packet for each " \
              "of them, and wakes the client as often."
  self.line = "# none: Paceline gathers the pieces of a body, for a millisecond at most"
  self.measured = "1,300 lines to a client on this machine, from the first write until it has all of them"

  LINES = 1300
  LINE = "<tr><td>a line of the page</td><td>42</td></tr>\n".freeze

  # As a body of Rack.
  class Body
    def each
      LINES.times { yield LINE }
    end
  end

  def ways
    @ways ||= [
      Way.new("a write for each line", -> { send_to_client { |socket| Body.new.each { |line| socket.write(line) } } }, -> { "1,300 writes" }),
      Way.new("one write", -> { send_to_client { |socket| socket.write(gathered) } }, -> { "1 write" })
    ]
  end

  private

  def rounds
    5
  end

  def gathered
    String.new(encoding: Encoding::BINARY).tap { |all| Body.new.each { |line| all << line } }
  end

  # The time of the client's own start is not measured.
  def clock
    server = TCPServer.new("127.0.0.1", 0)
    @socket = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
    @socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
    connection = server.accept
    @client = IO.popen([RbConfig.ruby, "--disable=all", "-e", CLIENT], "r", in: connection)
    connection.close
    @client.gets
    super
  ensure
    [server, @socket, @client].each { |io| io&.close }
  end

  # Says that it is there, and at the end how much has come.
  CLIENT = <<~'SOURCE'.freeze
    $stdout.sync = true
    puts
    size = 0
    begin
      loop { size += $stdin.readpartial(65_536).bytesize }
    rescue EOFError
      puts size
    end
  SOURCE
  private_constant :CLIENT

  def send_to_client
    yield @socket
    @socket.close
    @client.gets.to_i
  end
end
