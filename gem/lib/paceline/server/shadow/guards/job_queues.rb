# frozen_string_literal: true

require_relative "library"

# Jobs that an application gives to Sidekiq and Resque without ActiveJob: none goes into a queue. Each counts as a write, and the request goes on as if it had
# been enqueued. Other queues write to Redis or to a database, whose guards see it.
module Paceline
  module Server
    module Shadow
      class Guards
        module JobQueues
          # Before Sidekiq::Client: one job and many end here, after the client's middleware.
          module OfSidekiq
            private

            def raw_push(payloads)
              payloads.each { |job| Guards.note("job", "#{job["wrapped"] || job["class"]} in the queue #{job["queue"]} of Sidekiq") }
              true
            end
          end

          # Before Resque's own methods.
          module OfResque
            def push(queue, item)
              Guards.note("job", "#{item[:class] || item["class"]} in the queue #{queue} of Resque")
              nil
            end
          end

          ALL = [Library.new("Sidekiq::Client", OfSidekiq, method: :raw_push), Library.new("Resque", OfResque, method: :push, singleton: true)].freeze
        end
      end
    end
  end
end
