# frozen_string_literal: true

require "helper"
require "paceline/compare/ruby_choice"

# Which Ruby a folder's files name, and what is done if it is not installed. The Rubies are scripts that print a version.
class CompareRubyChoiceTest < Paceline::Test
  def choice(files, given = nil)
    in_tmpdir(files.transform_keys { |name| "app/#{name}" }.merge("app/config.ru" => "")) do |dir|
      { "bin/ruby" => "3.1.2", "bin/ruby3.3" => "3.3.8", "home/.rbenv/versions/3.4.1/bin/ruby" => "3.4.1", "home/.rbenv/versions/3.4.10/bin/ruby" => "3.4.10" }.each do |path, version|
        FileUtils.mkdir_p(File.dirname("#{dir}/#{path}"))
        File.write("#{dir}/#{path}", "#!/bin/sh\necho #{version} | tr -d '\\n'\n")
        File.chmod(0o755, "#{dir}/#{path}")
      end
      choice = Paceline::Compare::RubyChoice.new("#{dir}/app", given, home: "#{dir}/home", path: "#{dir}/bin:#{ENV.fetch("PATH")}")
      [choice.command.sub("#{dir}/", ""), choice.remark&.sub("#{dir}/", "")]
    end
  end

  def test_nothing_named_is_the_one_in_path
    assert_equal ["ruby", nil], choice({})
  end

  def test_what_was_given_comes_first
    files = { "paceline.toml" => %(ruby = "ruby3.3"\n), ".ruby-version" => "3.4.1\n" }
    assert_equal ["jruby", nil], choice(files, "jruby")
    assert_equal ["ruby3.3", nil], choice(files)
    assert_equal ["app/bin/ruby", nil], choice({ "paceline.toml" => %(port = 1\n  ruby = "./bin/ruby"\n) })
    assert_equal ["ruby", nil], choice({ "paceline.toml" => %([[site]]\nruby = "ruby3.3"\n) }), "that is one site's"
  end

  def test_versions_that_are_installed
    assert_equal ["home/.rbenv/versions/3.4.1/bin/ruby", nil], choice({ ".ruby-version" => "ruby-3.4.1\n" })
    assert_equal ["home/.rbenv/versions/3.4.10/bin/ruby", nil], choice({ ".tool-versions" => "nodejs 20\nruby 3.4\n" }), "the newest"
    assert_equal ["bin/ruby3.3", nil], choice({ "Gemfile" => %(ruby "3.3.8"\ngem "rails"\n) }), "as Debian names it"
    assert_equal ["ruby", nil], choice({ ".ruby-version" => "3.1\n" }), "it is the one in PATH"
  end

  def test_a_version_that_is_missing
    command, remark = choice({ ".ruby-version" => "3.3.4\n" })
    assert_equal "ruby", command
    assert_equal "app: .ruby-version names Ruby 3.3.4, which was not found here; the Ruby in PATH is 3.1.2. Name another one by --ruby-a or --ruby-b.", remark
  end
end
