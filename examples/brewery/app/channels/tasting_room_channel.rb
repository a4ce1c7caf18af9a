# Everybody at the table hears what is said. The async adapter knows only this process: guests of two worker processes
# sit at two tables. `echo` answers whoever asked, and nobody else.
class TastingRoomChannel < ApplicationCable::Channel
  LONGEST = 2000

  def subscribed
    stream_from "tasting_room"
    transmit({ "kind" => "welcome", "guest" => guest, "pid" => Process.pid })
  end

  def say(data)
    words = data["words"].to_s.strip.first(LONGEST)
    return if words.empty?

    ActionCable.server.broadcast("tasting_room", { "kind" => "said", "guest" => guest, "words" => words, "at" => Time.now.strftime("%H:%M:%S") })
  end

  def echo(data)
    transmit({ "kind" => "echo", "data" => data.except("action") })
  end
end
