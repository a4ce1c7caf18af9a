# frozen_string_literal: true

# Seventeen small applications by path, which do what those of https://github.com/wouterken/itsi-server-benchmarks do: bodies of several sizes, pieces with
# and without pauses, waiting, computing, a taken-over socket, files.
require "json"
require "rack"
require "sinatra/base"
require "sqlite3"

TEXT = { "content-type" => "text/plain" }.freeze
LINE = "  -Eex[:in], --encoding=ex[:in]   Set the default external and internal encodings.\n"
SMALL, MEDIUM, LARGE = [40, 4_000, 40_000].map { |lines| (LINE * lines).freeze }
SHORT_PIECE, LONG_PIECE = [10, 100].map { |count| "#{Array.new(count) { |i| "data #{i}" }.join(", ")}\n".freeze }

# A body that writes PIECE so many times, each to be sent at once.
def stream(piece, times)
  lambda do |stream|
    times.times { (stream << piece).flush }
    stream.close
  end
end

def prime?(number)
  return number == 2 if number < 3 || number.even?

  (3..Math.sqrt(number).to_i).step(2).none? { |divisor| (number % divisor).zero? }
end

# A row that is read, pauses, threads that wait for each other, the row written.
class Posts
  # Each server has its own.
  FILE = File.join(ENV.fetch("BENCH_WORK"), "posts-#{Process.pid}.sqlite3")

  def self.database
    Thread.current.thread_variable_get(:posts) || SQLite3::Database.new(FILE).tap do |database|
      database.busy_timeout(5_000)
      database.execute("PRAGMA synchronous = OFF")
      Thread.current.thread_variable_set(:posts, database)
    end
  end

  def self.create
    Dir[File.join(File.dirname(FILE), "posts-*")].each { |old| File.delete(old) unless File.exist?("/proc/#{old[/posts-(\d+)/, 1]}") }
    database = SQLite3::Database.new(FILE)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE posts (id INTEGER PRIMARY KEY, name TEXT, body TEXT)")
    database.execute("INSERT INTO posts (name, body) VALUES ('Hello', 'A post of the test')")
    database.close
  end

  def self.call
    row = database.execute("SELECT id, name, body FROM posts").first
    queue = Queue.new
    2.times do
      thread = Thread.new { sleep(0.0001) && queue.pop }
      queue.push("done")
      thread.join
    end
    database.execute("UPDATE posts SET body = ? WHERE id = ?", [row[2], row[0]])
    JSON.generate(row)
  end
end
Posts.create

class Small < Sinatra::Base
  set :protection, false
  set :host_authorization, { permitted_hosts: [] }
  get("/sinatra") { "Hello, world!" }
  post("/sinatra") { "You posted: #{request.body.read}" }
end
SINATRA = Small.new

def hijack(socket)
  Thread.new do
    text = "Hello from the socket!\n"
    socket.write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n#{text.bytesize.to_s(16)}\r\n#{text}\r\n0\r\n\r\n")
  ensure
    socket.close
  end
  [-1, {}, []]
end

# For servers that send no files of public/ themselves.
use Rack::Static, urls: ["/index.html", "/image.png"], root: File.join(Dir.pwd, "public")

run lambda { |env|
  case env["PATH_INFO"]
  when "/empty" then [200, {}, [""]]
  when "/hello" then [200, TEXT.dup, ["hello world"]]
  when "/small" then [200, TEXT.dup, [SMALL]]
  when "/medium" then [200, TEXT.dup, [MEDIUM]]
  when "/large" then [200, TEXT.dup, [LARGE]]
  when "/chunked" then [200, TEXT.dup, Enumerator.new { |body| 5.times { |i| (body << "Chunk #{i + 1}\n") && sleep(0.001) } }]
  when "/stream_small" then [200, TEXT.dup, stream(SHORT_PIECE, 5)]
  when "/stream_large" then [200, TEXT.dup, stream(LONG_PIECE, 1_000)]
  when "/io_heavy" then [200, TEXT.dup, [Posts.call]]
  when "/many_small_delay" then 100.times { sleep 0.01 } && [200, TEXT.dup, ["hello world"]]
  when "/big_delay" then sleep(1) && [200, TEXT.dup, ["hello world"]]
  when "/cpu_heavy" then [200, TEXT.dup, ["#{(2..1_000).count { |number| prime?(number) }} prime numbers up to 1000\n"]]
  when "/sinatra" then SINATRA.call(env)
  when "/full_hijack" then hijack(env["rack.hijack"].call)
  else [200, TEXT.dup, ["Dynamic: #{env["PATH_INFO"]}"]]
  end
}
