# frozen_string_literal: true

require "timeout"
require "paceline/context"

# Many requests of random users over a few threads, which end in all the ways that requests end: well, by an exception, a time-out, a hijack, a body that fails
# or is never closed, a thread that is killed or interrupted anywhere. Each looks again and again who it is for, and notes whom it finds in its place. It is a
# server without sockets: what it calls is the middleware, as servers do.
class Crowd
  USERS = 1000
  # How many of a thousand requests end in which way; the rest answers an Array.
  SHARES = { body: 250, streaming: 60, raises: 80, body_raises: 40, throws: 20, hijacks: 40, takes_over: 30, never_closed: 60, wraps: 20, nested: 40, fibers: 40,
             runs: 60, timeout: 2, kills_itself: 2 }.freeze
  KINDS = SHARES.flat_map { |kind, count| [kind] * count }.freeze

  class Failure < StandardError; end
  class Interruption < Exception; end # rubocop:disable Lint/InheritException -- nothing of an application rescues it

  # What an application's body is: pieces that look who they are for.
  class Body
    def initialize(look, ending = nil)
      @look = look
      @ending = ending
    end

    def each
      2.times { @look.call; yield "piece" }
      raise Failure if @ending == :body_raises
    end

    def close = @look.call
  end

  # {kind => count}; requests whose thread was killed or interrupted from outside; [kind, wanted, found] of each look that found another.
  attr_reader :counts, :killed, :interrupted, :wrong

  def initialize(requests:, threads: 5, seed: Random.new_seed)
    @random = Random.new(seed)
    @left = requests
    @threads = threads
    @lock = Mutex.new
    @counts = Hash.new(0)
    @killed = @interrupted = 0
    @wrong = []
    @app = Paceline::Context.new(method(:answer))
  end

  # Returns itself when all is done.
  def run
    Paceline::Context.user_from { |request| "user-#{request.env["crowd.user"]}" }
    workers = Array.new(@threads) { worker }
    until workers.none?(&:alive?)
      disturb(workers)
      workers.map! { |thread| thread.alive? || (@left <= 0 && @interrupted.positive?) ? thread : worker }
    end
    self
  ensure
    Paceline::Context.user_from
  end

  private

  # Every few milliseconds one is killed, or something is raised in it.
  def disturb(workers)
    workers.each { |thread| thread.join(0.002) and break }
    victim = workers.sample(random: @random)
    return unless victim.alive?

    if @random.rand(3).zero?
      victim.kill
      victim.join
      @killed += 1
    else
      victim.raise(Interruption)
      @interrupted += 1
    end
  end

  # It is interrupted only while it serves, as by a server that gives requests up, or by a Timeout that is late.
  def worker
    random = Random.new(@random.rand(1 << 60))
    Thread.handle_interrupt(Interruption => :never, Failure => :never) do
      # However few of them the processors let come: some are interrupted.
      Thread.new { give_out(random) while (@left -= 1) >= 0 || @interrupted.zero? }
    end
  end

  def give_out(random)
    kind = KINDS[random.rand(1000)] || :array
    Thread.handle_interrupt(Interruption => :immediate, Failure => :immediate) { serve(kind, random.rand(USERS)) }
    @counts[kind] += 1
    note(kind, nil) if Paceline.current.active?
  rescue Interruption, Failure
    nil
  end

  # As a server: calls, sends, closes, and calls what is to be called afterwards.
  def serve(kind, number)
    env = { "crowd.user" => number, "crowd.kind" => kind, "HTTP_X_REQUEST_ID" => "r#{number}", "rack.after_reply" => [] }
    case kind
    when :timeout then Timeout.timeout(0.001, Failure) { exchange(env) }
    when :kills_itself then exchange(env) # the thread ends in it
    when :throws then catch(:async) { exchange(env) }
    else exchange(env)
    end
  rescue Failure
    nil
  ensure
    env["rack.after_reply"].each(&:call)
  end

  def exchange(env)
    _, headers, body = @app.call(env)
    return headers["rack.hijack"].call(:socket) if headers["rack.hijack"]
    return if env["rack.hijack_io"]

    begin
      body.respond_to?(:each) ? body.each(&:itself) : body.call([])
    ensure
      body.close if body.respond_to?(:close) && env["crowd.kind"] != :never_closed
    end
  end

  def answer(env)
    kind = env["crowd.kind"]
    look = -> { look(env) }
    Paceline.current[:number] = env["crowd.user"]
    look.call
    case kind
    when :raises then raise Failure
    when :throws then throw :async
    when :timeout then sleep
    when :kills_itself then Thread.current.kill
    when :hijacks then env["rack.hijack_io"] = :socket
    when :wraps then Thread.new(&Paceline.current.wrap(&look)).join
    when :fibers then Fiber.new(&look).resume
    when :nested then serve(:body, env["crowd.user"] + USERS)
    when :runs then Paceline.current.run(user: "admin") { note(kind, "admin") unless Paceline.current.user == "admin" }
    end
    look.call
    return [200, { "rack.hijack" => ->(_) { look.call } }, []] if kind == :takes_over

    [200, {}, kind == :array ? ["hello"] : body(kind, look)]
  end

  def body(kind, look)
    kind == :streaming ? ->(_) { look.call } : Body.new(look, kind)
  end

  def look(env)
    number = env["crowd.user"]
    current = Paceline.current
    right = current.user == "user-#{number}" && current[:number] == number && current.request_id == "r#{number}"
    note(env["crowd.kind"], "user-#{number}") unless right
  end

  def note(kind, wanted)
    found = [Paceline.current.user, Paceline.current.request_id, Paceline.current[:number]]
    @lock.synchronize { @wrong << [kind, wanted, found] if @wrong.size < 20 }
  end
end
