# frozen_string_literal: true

module Paceline
  # Marshal data runs code of its author, so it is loaded only from files that nobody else writes.
  module Trust
    # Why what is in this file (a File::Stat) is not to be loaded, or nil.
    def self.doubt(stat)
      return "it belongs to user #{stat.uid}, not to #{Process.euid}, whom this process runs as" unless stat.owned?

      "everybody may write to it" if stat.world_writable?
    end
  end
end
