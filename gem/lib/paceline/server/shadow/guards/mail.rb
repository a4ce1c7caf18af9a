# frozen_string_literal: true

# Mails are made as ever, and delivered to nobody. That counts as no write, so that what a mail costs within a request can be measured; a conversation
# with a mail server that is not the gem mail's is refused.
module Paceline
  module Server
    module Shadow
      class Guards
        module Mail
          # Takes the place of each delivery method.
          module Nowhere
            module_function

            def deliver!(_mail)
              nil
            end

            def settings
              {}
            end
          end

          # Before Mail::Message.
          module OfMessage
            def delivery_method(method = nil, settings = {})
              method ? super : Nowhere
            end
          end

          # Before Net::SMTP.
          module OfSMTP
            def start(*, **)
              Guards.note("mail", "a conversation with the mail server #{address}")
              raise Errno::ECONNREFUSED, "a shadow sends no mail"
            end
          end

          class << self
            def there?
              Guards.loaded?("Mail::Message")
            end

            def install
              ::Mail::Message.prepend(OfMessage)
            end
          end

          # The library that speaks to mail servers.
          module SMTP
            class << self
              def there?
                Guards.loaded?("Net::SMTP")
              end

              def install
                ::Net::SMTP.prepend(OfSMTP)
              end
            end
          end
        end
      end
    end
  end
end
