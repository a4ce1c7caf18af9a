# The example `protected` of crates/negotiate as a server, and curl as its client. `@kdc` (or what has the same `env` and `file`) is the test's.
require "open3"
require_relative "faketime"

module ProtectedPage
  CHECKOUT = File.expand_path("../../..", __dir__)
  BIN = ENV.fetch("PROTECTED_BIN") { File.join(ENV.fetch("CARGO_TARGET_DIR", File.join(CHECKOUT, "target")), "debug/examples/protected") }
  HOST = "web.example.test"

  Response = Struct.new(:status, :body, :challenges)

  # Starts the page. `clock`: at what time.
  def serve(keytab, *options, clock: nil, env: {})
    reader, writer = IO.pipe
    pid = Process.spawn(@kdc.env.merge(env), *Faketime.command(clock), BIN, "serve", keytab, *options, out: writer, err: @kdc.file("page.err"), pgroup: true)
    (@pages ||= []) << pid
    writer.close
    @port = reader.gets&.to_i or flunk("the page does not start: #{File.read(@kdc.file("page.err"))}")
  end

  def stop_pages
    (@pages || []).each do |pid|
      Process.kill("TERM", -pid)
      Process.wait(pid)
    end
  end

  # curl with the ticket of the cache, as a person has it.
  def visit(*arguments, host: HOST, env: {})
    curl("--negotiate", "-u", ":", *arguments, host: host, env: env)
  end

  def curl(*arguments, host: HOST, env: {})
    output, status = Open3.capture2e(@kdc.env.merge(env), "curl", "--silent", "--show-error", "--include", "--max-time", "30", "--noproxy", "*",
      "--connect-to", "#{host}:80:127.0.0.1:#{@port}", *arguments, "http://#{host}/")
    assert status.success?, output
    # Each round's head, then the last one's body.
    head, body = output.split("\r\n\r\n").then { |parts| [parts[-2], parts[-1]] }
    Response.new(head[/\AHTTP\S+ (\d+)/, 1].to_i, body.to_s.chomp, head.scan(/^WWW-Authenticate: (.*?)\r?$/i).flatten)
  end

  # A token for the page, made but not sent.
  def token(*options, host: HOST, env: {})
    output, status = Open3.capture2e(@kdc.env.merge(env), BIN, "token", host, *options)
    assert status.success?, output
    output.chomp
  end

  def send_token(token) = curl("-H", "Authorization: Negotiate #{token}")

  def assert_signed_in(who, response)
    assert_equal 200, response.status, response.body
    assert_match(/\A#{Regexp.escape(who)} of /, response.body)
  end

  def assert_refused(kind, response, status: 401)
    assert_equal [status, kind], [response.status, response.body[/\A[\w-]+/]], response.body
  end
end
