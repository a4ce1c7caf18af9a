# frozen_string_literal: true

# `deliver_now` does what `deliver_later` does: it makes a job of the mail, which is rendered and delivered elsewhere. The job goes nowhere here, so
# what a queue takes for storing it is not measured.
module Paceline
  module Server
    module Shadow
      module Patches
        module AsyncMail
          # Takes jobs in the form in which a queue stores them, and drops them.
          class Queue
            def enqueue(job)
              ::ActiveSupport::JSON.encode(job.serialize)
            end

            def enqueue_at(job, _time)
              enqueue(job)
            end

            # Rails 7.2 asks.
            def enqueue_after_transaction_commit?
              false
            end
          end

          # Before ActionMailer::MessageDelivery's own methods. A mail that was looked at can't be left to a job.
          module Delivering
            def deliver_now
              return super if processed?

              AsyncMail.use_queue(@mailer_class.delivery_job)
              enqueue_delivery(:deliver_now)
            end

            def deliver_now!
              return super if processed?

              AsyncMail.use_queue(@mailer_class.delivery_job)
              enqueue_delivery(:deliver_now!)
            end
          end

          def self.apply(_params, _shadow)
            raise Inapplicable, "the application does not use ActionMailer" unless defined?(::ActionMailer::MessageDelivery)
            raise Inapplicable, "the application does not use ActiveJob" unless defined?(::ActiveJob::Base) && ::ActionMailer::Base.respond_to?(:delivery_job)

            @queue = Queue.new
            ::ActionMailer::MessageDelivery.prepend(Delivering)
          end

          # @api private
          def self.use_queue(job_class)
            job_class.queue_adapter = @queue unless job_class.queue_adapter.equal?(@queue)
          end
        end
      end
    end
  end
end
