# frozen_string_literal: true

require "session/support/backends"

# Many processes with one store: nothing lost, nothing that is gone comes back, whoever is killed. UPDATES=100000 for as many by each of four writers.
class SessionProcessesTest < Minitest::Test
  extend SessionBackends
  include SessionBackends::Looks

  UPDATES = Integer(ENV["UPDATES"] || 200)
  KILLS = Integer(ENV["KILLS"] || 20)
  SEED = Integer(ENV["SEED"] || Random.new_seed % 1_000_000)

  # Runs the block in so many processes at once, and fails with what went wrong in one.
  def processes(count)
    children = Array.new(count) do |number|
      said, tell = IO.pipe
      pid = fork do
        said.close
        tell.write(Marshal.dump(begin yield(number) rescue "#{$!.class}: #{$!.message}\n#{$!.backtrace.first(5).join("\n")}" end))
        tell.close
        exit!(0)
      end
      tell.close
      [pid, said]
    end
    children.map do |pid, said|
      answer = Marshal.load(said.read)
      Process.wait(pid)
      refute_kind_of String, answer, answer
      answer
    end
  end

  # The store was used before the fork, and each process has threads.
  on_each("four_processes_change_one_session") do |store|
    sessions = Paceline::Session::Store.new(store: store)
    sessions.create("id", { "user_id" => 1 })
    processes(4) do |process|
      Array.new(2) do |thread|
        Thread.new do
          UPDATES.times do |number|
            change(sessions, "id") do |now|
              raise "lost: #{now.inspect}" if number.positive? && now["#{process}.#{thread}"] != number
              now["#{process}.#{thread}"] = number + 1
              now["#{process}.#{thread}.#{number % 10}"] = [number]
              now.delete("#{process}.#{thread}.#{(number - 5) % 10}")
            end
          end
        end
      end.each(&:join).size
    end
    kept = values(sessions, "id")
    4.times { |process| 2.times { |thread| assert_equal UPDATES, kept["#{process}.#{thread}"] } }
    assert_equal 1 + (8 * 6), kept.size
    assert_equal 1, count(store)
  end

  # Each id is destroyed by one process while others save: once it is gone it stays gone.
  on_each("what_is_destroyed_stays_so_among_processes") do |store|
    sessions = Paceline::Session::Store.new(store: store)
    ids = Array.new(UPDATES) { |number| "id#{number}" }
    ids.each { |id| sessions.create(id, { "count" => 0 }) }
    results = processes(4) do |process|
      if process.zero?
        ids.each { |id| sessions.take(id) }
        [ids.size, 0]
      else
        saved = 0
        ids.reverse_each do |id|
          record = sessions.find(id) or next
          saved += 1 if sessions.update(id, record, { "count" => process })
        end
        [0, saved]
      end
    end
    assert_equal UPDATES, results[0][0]
    assert_equal 0, count(store), results.inspect
    assert(ids.none? { |id| sessions.find(id) })
  end

  on_each("what_was_saved_outlives_its_process") do |store|
    random = Random.new(SEED)
    sessions = Paceline::Session::Store.new(store: store)
    sessions.create("id", { "count" => 0 })
    known = 0
    KILLS.times do |trial|
      said, tell = IO.pipe
      pid = fork do
        said.close
        loop do
          count = nil
          change(sessions, "id") { |now| now.update("count" => (count = now["count"] + 1), "twin" => count, "more" => "x" * (count % 5000)) }
          tell.syswrite("#{count}\n")
        end
      end
      tell.close
      first = said.readpartial(4096)
      random.rand(200).times { Thread.pass }
      Process.kill(:KILL, pid)
      Process.wait(pid)
      known = [known, *(first + said.read).lines.select { |line| line.end_with?("\n") }.map(&:to_i)].max
      said.close
      found = values(sessions, "id")
      context = "SEED=#{SEED}, trial #{trial}: known #{known}, found #{found["count"]}"
      assert_operator found["count"], :>=, known, context
      assert_operator found["count"], :<=, known + 1, context
      assert_equal [found["count"], found["count"] % 5000], [found["twin"], found["more"].size], context
      known = found["count"]
    end
  end

  on_each("sessions_that_come_and_go") do |store|
    Paceline::Session::Store.new(store: store).create("first", { "a" => 1 })
    processes(4) do |process|
      sessions = Paceline::Session::Store.new(store: store)
      UPDATES.times do |number|
        id = "#{process}.#{number}"
        sessions.create(id, { "id" => id })
        raise "not found: #{id}" unless values(sessions, id) == { "id" => id }
        raise "not taken: #{id}" if number.odd? && sessions.values(sessions.take(id)) != { "id" => id }
      end
    end
    assert_equal 1 + (2 * UPDATES), count(store)
  end
end
