# Roda is in no Debian package: `gem install roda` brings it.
require "roda"

class Hello < Roda
  plugin :streaming

  route do |r|
    r.root { "Hello from Roda #{Roda::RodaVersion} on Ruby #{RUBY_VERSION}\n" }

    r.get "hello", String do |name|
      "Hello, #{name}\n"
    end

    r.get "stream" do
      stream do |out|
        5.times do |i|
          out << "#{i}\n"
          sleep 0.1
        end
      end
    end
  end
end
