# Visitors who have a beer's page open, and get new notes as server-sent events. One thread for all of them in this process, as long as there are any: none of
# them holds a thread of the server. It asks the database, so that a note is heard of whichever process took it.
class NoteListeners
  HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n".freeze
  PAUSE = 0.25
  # A comment so often (s), which shows whether somebody is still there.
  PING = 15
  # Then the browser comes back by itself, and says which note it had last.
  LONGEST = 300
  MAX = 200

  Listener = Struct.new(:io, :beer_id, :last_id, :since, :pinged) do
    def send_now(text)
      io.write_nonblock(text) == text.bytesize
    rescue IO::WaitWritable, SystemCallError, IOError
      false
    end
  end

  @lock = Mutex.new
  @listeners = []

  class << self
    # `io`: the hijacked connection. Closes it when its time is over, or nobody reads there. False if there are too many already.
    def add(io, beer_id, last_id)
      @lock.synchronize do
        return false if @listeners.size >= MAX

        @listeners << Listener.new(io, beer_id, last_id, now, now)
        @thread = Thread.new { run } unless @thread&.alive?
      end
      true
    end

    private

    def run
      loop do
        listeners = @lock.synchronize do
          @listeners.any? ? @listeners.dup : (return @thread = nil)
        end
        newest = newest_id
        drop(listeners.reject { |listener| serve(listener, newest) })
        sleep PAUSE
      end
    ensure
      drop(@listeners.dup)
    end

    def newest_id
      Rails.application.executor.wrap { Note.maximum(:id).to_i }
    end

    # False if that was all.
    def serve(listener, newest)
      return false if now - listener.since > LONGEST

      text = newest > listener.last_id ? events(listener, newest).join : ""
      listener.last_id = [newest, listener.last_id].max
      text = ": still here\n\n" if text.empty? && now - listener.pinged > PING
      return true if text.empty?

      listener.pinged = now
      listener.send_now(text)
    rescue StandardError => e
      Rails.logger.error("Notes are not sent: #{e.message} (#{e.class})")
      false
    end

    # What is new on the beer's page.
    def events(listener, newest)
      Rails.application.executor.wrap do
        Note.where(beer_id: listener.beer_id, id: listener.last_id + 1..newest).order(:id).map do |note|
          NotePage.new(ApplicationController.renderer, note).update.to_event(note.id)
        end
      end
    end

    def drop(gone)
      return if gone.empty?

      @lock.synchronize { @listeners -= gone }
      gone.each { |listener| listener.io.close unless listener.io.closed? }
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
