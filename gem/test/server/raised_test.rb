# frozen_string_literal: true

require "helper"

# The front is told which exception the application's own error page is about.
class RaisedTest < Paceline::Test
  # As Sinatra does, and as Rails does by DebugExceptions and, for its public pages, by ShowExceptions.
  APP = <<~'RUBY'
    module ActionDispatch
      class DebugExceptions
        class << self
          attr_accessor :interceptor

          def register_interceptor(&block) = self.interceptor = block
        end
      end
    end
    Request = Struct.new(:env) do
      def get_header(name) = env[name]
      def set_header(name, value) = env[name] = value
    end
    run ->(env) {
      error = (Integer("x") rescue begin; raise KeyError, "key not found: \"SMTP_HOST\""; rescue => e; e; end)
      case env["PATH_INFO"]
      when "/rails"
        env["action_dispatch.show_detailed_exceptions"] = true
        ActionDispatch::DebugExceptions.interceptor&.call(Request.new(env), error)
      when "/public" then env["action_dispatch.exception"] = error
      when "/hidden" then ActionDispatch::DebugExceptions.interceptor&.call(Request.new(env), error)
      when "/sinatra", "/fine" then env["sinatra.error"] = error
      end
      [env["PATH_INFO"] == "/fine" ? 200 : 500, {}, ["a page"]]
    }
  RUBY

  def answers(environment, *paths)
    in_tmpdir("config.ru" => APP) do |dir|
      front = FakeFront.new(root: dir, environment: environment)
      front.await_start
      channel = front.fork_worker.tap { |worker| worker.await(F::READY) }.channels[1]
      paths.map do |path|
        channel.send(F::REQUEST, FakeFront.request({ "PATH_INFO" => path }))
        FakeFront.answer(channel)
      end
    ensure
      front&.stop
    end
  end

  def test_pages_of_errors_come_with_the_exception_in_development
    rails, sinatra = answers("development", "/rails", "/sinatra")
    [rails, sinatra].each do |answer|
      assert_equal [[F::RAISED, F::RESPONSE], "a page"], [answer.types, answer.body]
      assert_equal ["KeyError", 'key not found: "SMTP_HOST"'], answer.error.values_at("class", "message")
      assert_match(/\AArgumentError: invalid value/, answer.error["cause"])
    end
    answers("development", "/hidden", "/public", "/fine", "/").each { |answer| assert_equal [F::RESPONSE], answer.types }
  end

  def test_in_production_public_pages_come_with_it_for_the_log
    answers("production", "/public", "/sinatra").each do |answer|
      assert_equal [[F::RAISED, F::RESPONSE], "KeyError", "a page"], [answer.types, answer.error["class"], answer.body]
    end
    answers("production", "/rails", "/fine", "/").each { |answer| assert_equal [F::RESPONSE], answer.types }
  end
end
