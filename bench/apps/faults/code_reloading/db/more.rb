# The rules' files.
require "fileutils"

FileUtils.mkdir_p("app/models/rules")
(1..400).each do |number|
  name = format("rule%03d", number)
  File.write("app/models/rules/#{name}.rb", <<~RUBY)
    module Rules
      class #{name.capitalize}
        PERCENT = #{number % 9}

        def self.apply(cents)
          cents - (cents * PERCENT / 100)
        end

        def self.title = "rule #{number}"
      end
    end
  RUBY
end
