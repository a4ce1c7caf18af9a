# frozen_string_literal: true

# Random numbers that are the same whenever the seed is: Kernel#rand, Random, SecureRandom and what Ruby code asks of OpenSSL. What a C library
# draws by itself, as for TLS, stays random.
module Paceline
  module Server
    module Shadow
      module SeededRandom
        # Before Random's class methods. SecureRandom draws from `urandom`.
        module OfRandom
          def urandom(size)
            SeededRandom.bytes(size)
          end

          def new_seed
            SeededRandom.number
          end

          def new(*seed)
            seed.empty? ? super(SeededRandom.number) : super
          end
        end

        # Before OpenSSL::Random's.
        module OfOpenSSL
          def random_bytes(size)
            SeededRandom.bytes(size)
          end

          def pseudo_bytes(size)
            SeededRandom.bytes(size)
          end
        end

        class << self
          def there?
            true
          end

          def install
            @source = Random.new
            Random.singleton_class.prepend(OfRandom)
          end

          # A request begins.
          def seed(number)
            @source = Random.new(number)
            Kernel.srand(number)
          end

          def bytes(size)
            @source.bytes(size)
          end

          # As Random.new_seed: of 128 bits.
          def number
            @source.bytes(16).unpack("Q2").then { |high, low| (high << 64) | low }
          end
        end

        # The library may be loaded later than a shadow begins.
        module OpenSSL
          class << self
            def there?
              Guards.loaded?("OpenSSL::Random")
            end

            def install
              ::OpenSSL::Random.singleton_class.prepend(OfOpenSSL)
            end
          end
        end
      end
    end
  end
end
