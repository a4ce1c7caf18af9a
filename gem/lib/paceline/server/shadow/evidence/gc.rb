# frozen_string_literal: true

require_relative "observer"

# Garbage collection during the request.
module Paceline
  module Server
    module Shadow
      class Evidence
        class Gc < Observer
          def start(env)
            super
            @runs = ::GC.count
            @began = ::GC.total_time
          end

          def stop(env)
            super
            @us = (::GC.total_time - @began) / 1000
            @runs = ::GC.count - @runs
          end

          def to_h
            { us: @us, runs: @runs } if @us
          end
        end
      end
    end
  end
end
