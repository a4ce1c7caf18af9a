# frozen_string_literal: true

# Jobs of ActiveJob are serialized, and go into no queue. Each counts as a write: the real request would have enqueued it.
module Paceline
  module Server
    module Shadow
      class Guards
        module Jobs
          OURS = "Paceline::Server::Shadow::"
          private_constant :OURS

          # Takes the place of each queue adapter.
          module Nowhere
            module_function

            def enqueue(job)
              job.serialize
              Guards.note("job", "#{job.class.name} in the queue #{job.queue_name}")
            end

            def enqueue_at(job, _time)
              enqueue(job)
            end

            # Of Rails 7.2: whether a job waits for the end of a transaction.
            def enqueue_after_transaction_commit?
              false
            end

            # Of Rails 8.
            def stopping?
              false
            end
          end

          # Before ActiveJob::Base's class methods.
          module OfBase
            # One that a patch has set stays.
            def queue_adapter
              adapter = super
              adapter.class.name.to_s.start_with?(OURS) ? adapter : Nowhere
            end
          end

          class << self
            def there?
              Guards.loaded?("ActiveJob::Base")
            end

            def install
              ::ActiveJob::Base.singleton_class.prepend(OfBase)
            end
          end
        end
      end
    end
  end
end
