# frozen_string_literal: true

# The head of a response that is regular and has come as a whole, read in one go as Net::HTTP would read it line by line. Everything else is
# left to Net::HTTP. In its place for wires only.
module Paceline
  module HTTP
    module Head
      HEAD = %r{\AHTTP/(\d\.\d) (\d{3})(?: ((?! )[^\r\n]*))?\r\n((?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*)\r\n\z}n
      FIELD = /([^:]+):[ \t]*((?:[^\r]*[^\r \t])?)[ \t]*\r\n/n
      # Names that were seen, in small letters.
      KNOWN_MAX = 1000
      private_constant :HEAD, :FIELD, :KNOWN_MAX

      @names = {}

      class << self
        # Nil: that is for Net::HTTP.
        def parse(head)
          found = HEAD.match(head) or return
          code = found[2]
          kind = Net::HTTPResponse::CODE_TO_OBJ[code] || Net::HTTPResponse::CODE_CLASS_TO_OBJ[code[0]] || Net::HTTPUnknownResponse
          response = kind.new(found[1], code, found[3])
          fields = response.instance_variable_get(:@header)
          found[4].scan(FIELD) do |name, value|
            name = @names[name] || remember(name)
            (there = fields[name]) ? there << value : fields[name] = [value]
          end
          response
        end

        private

        def remember(name)
          small = -name.downcase
          @names[-name] = small if @names.size < KNOWN_MAX
          small
        end
      end

      # Before Net::HTTPResponse.read_new.
      module Reading
        def read_new(socket)
          return super unless socket.is_a?(Wire)

          socket.judge(socket.head { |head| Head.parse(head) } || super)
        end
      end
      Net::HTTPResponse.singleton_class.prepend(Reading)
    end
  end
end
