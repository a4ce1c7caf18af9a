# frozen_string_literal: true

# A kind of request that a scenario sends, and what its answer must be.
module Bench
  class Kind
    attr_reader :name, :method, :path, :body, :check
    attr_accessor :expected

    # What differs from response to response in pages of Rails: tokens against forgery, Redmine's names of forms, the brewery's line
    # about the process. Everything else must stay as it is.
    VARYING = %r{csrf-token" content="[^"]+"|authenticity_token" value="[^"]+"|form-\h{8}"|<p>Rails [^\n]*|the application took [^\n]*}n

    # CHECK is :exact (every byte as in the response that was checked first), :page (every byte but VARYING), or :status (200, and not empty when it is
    # checked first: for requests that are no measurement).
    # CONTAINS must be in the response that is checked first.
    def initialize(name, path, method: "GET", body: nil, check: :exact, contains: nil, expected: nil)
      @name = name
      @path = path
      @method = method
      @body = body
      @check = check
      @contains = contains
      @expected = expected
      @length = expected&.bytesize
      @pieces = expected && [expected]
    end

    def exact?
      check == :exact
    end

    # What of a response stays as it is, in pieces; nil as long as it is not known.
    attr_reader :pieces

    # Bytes of the response that was checked first, the parts that differ among them.
    attr_reader :length

    # Takes a response as the model if it is what the scenario promises; tells what is wrong with it otherwise.
    def learn(status, content)
      return "status #{status}" unless status == 200
      return ("an empty page" if content.empty?) if check == :status
      return "#{@contains.inspect} is not in it" if @contains && !content.include?(@contains)

      @expected ||= settled(content)
      @length ||= content.bytesize
      @pieces ||= exact? ? [content] : content.split(VARYING, -1)
      wrong(content.bytesize, content)
    end

    # What is wrong with a response of LENGTH bytes that is (or, of a long one, begins with) CONTENT; nil if nothing.
    def wrong(length, content)
      return "#{length} bytes instead of #{@length}" if exact? && length != @length
      return if exact? && content.bytesize < length ? @expected.start_with?(content) : settled(content) == @expected

      "other content"
    end

    private

    def settled(content)
      exact? ? content : content.gsub(VARYING, "")
    end
  end
end
