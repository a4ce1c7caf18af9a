# frozen_string_literal: true

module Paceline
  class PStore
    # Marshal data runs code of whoever wrote it, so it is loaded only from files that nobody else writes.
    module Trust
      module_function

      # Raises Error if the file (a File::Stat) belongs to somebody else or is everybody's to write.
      def check(path, stat)
        return if stat.owned? && !stat.world_writable?

        whose = stat.owned? ? "everybody may write to it" : "it belongs to user #{stat.uid}, not to #{Process.euid}, whom this process runs as"
        raise Error, "#{path} is not loaded, since #{whose}: loading it could run their code. Change its owner, or pass `trust: true`"
      end
    end
    private_constant :Trust
  end
end
