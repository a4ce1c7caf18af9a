# Redmine as the crawl sees it: a copy of one that test/redmine/prepare has made, people with different rights, pages, and what people write.
require_relative "../../e2e/support/issue_form"
require_relative "person"

module Crawl
  class Redmine
    # As it is, each of its requests reads the clock, and none of its pages is kept: it looks when a password was given last, also where that
    # has no consequence (`sudo_mode` is off by default), and when the session's token was used last, which is off in Redmine's own tests.
    INITIALIZER = <<~RUBY.freeze
      Rails.application.config.redmine_verify_sessions = false
      Rails.application.config.to_prepare do
        Redmine::SudoMode::Controller.class_eval { def sudo_timestamp_valid? = false }
      end
    RUBY
    PASSWORD = "pull-together-7".freeze
    MODULES = %w[issue_tracking wiki files news time_tracking boards].freeze
    # Pages, and how often they are asked for beside each other. `*` is the number of an issue.
    PAGES = {
      "/" => 6, "/projects" => 6, "/projects/brewhouse" => 8, "/projects/brewhouse/issues" => 8, "/projects/brewhouse/wiki" => 6,
      "/projects/brewhouse/news" => 3, "/projects/brewhouse/roadmap" => 4, "/projects/brewhouse/settings" => 3, "/issues/*" => 12, "/login" => 3,
      "/projects/brewhouse.json" => 6, "/projects/brewhouse/wiki/Wiki.json" => 5, "/projects/brewhouse/issues.json" => 4,
      "/issues/*.json?include=journals" => 6, "/time_entries.json" => 4, "/users/current.json" => 4
    }.freeze

    # Copies it. `dir`: an empty folder. `as_it_is`: no line of it is changed.
    def self.copy(prepared, dir, as_it_is: false)
      prepared = File.realpath(prepared)
      FileUtils.cp_r(File.join(prepared, "."), dir)
      %w[config/database.yml Gemfile].map { |name| File.join(dir, name) }.each { |file| File.write(file, File.read(file).gsub(prepared, dir)) }
      FileUtils.rm_rf(Dir[File.join(dir, "{log,tmp}/*")])
      FileUtils.mkdir_p(File.join(dir, "tmp/pids"))
      return if as_it_is

      File.write(File.join(dir, "config/initializers/99-crawl.rb"), INITIALIZER)
    end

    attr_reader :people

    # `only`: pages that match. `heard` is given each request of anybody, and its answer.
    def initialize(server, account, random, only: //, &heard)
      @server = server
      @random = random
      @heard = heard
      @pages = PAGES.select { |path, _| path.match?(only) }
      @admin = person("admin", account.fetch("api_key"))
      @project = account.fetch("project")
      begin_with
    end

    def page
      at = @random.rand(@pages.values.sum)
      path = @pages.find { |_, weight| (at -= weight).negative? }.first
      numbered(path, @issues.sample(random: @random))
    end

    # Every page once.
    def pages = @pages.keys.map { |path| numbered(path, @issues.first) }

    # Somebody writes something; in words.
    def write
      method(%i[create_issue edit_issue edit_issue edit_issue_by_form delete_issue edit_wiki edit_wiki create_news delete_news log_time log_time
                delete_time rename_project change_rights sign_in_again].sample(random: @random)).call
    end

    # Somebody, and the page that he asks for: every other time a stranger, of whom one leaves now and then, and another one comes.
    def visit
      return [@people.first(3).sample(random: @random), page] if @random.rand < 0.5

      if @random.rand < 0.1
        @people.pop.finish
        @people.push(person("a stranger"))
      end
      [@people.last, page]
    end

    # Whose pages are alike.
    def audience(somebody) = somebody.equal?(@people.last) ? "strangers" : somebody.name

    private

    # With `.json` behind it a number makes a route of its own: that is always the same one.
    def numbered(path, issue) = path.sub("*", (path.include?("*.json") ? @issues.first : issue).to_s)

    def person(name, key = nil) = Person.new(@server.url, name, key, &@heard)

    def begin_with
      @admin.json("put", "/projects/#{@project}.json", project: { enabled_module_names: MODULES })
      roles = @admin.json("get", "/roles.json")["roles"].to_h { |role| role.values_at("name", "id") }
      @role_ids = roles.values_at("Manager", "Developer", "Reporter")
      ann, bob = %w[ann bob].zip(@role_ids.values_at(0, 2)).map { |name, role| employ(name, role) }
      @people = [sign_in(@admin), ann, bob, person("a stranger")]
      @activity = @admin.json("get", "/enumerations/time_entry_activities.json")["time_entry_activities"].first["id"]
      @issues = Array.new(4) { |nth| new_issue(ann, "Wort #{nth}") }
      @news, @times = [], []
      edit_wiki
      create_news
      log_time
    end

    def employ(name, role)
      user = @admin.json("post", "/users.json", user: { login: name, firstname: name.capitalize, lastname: "Brewer", mail: "#{name}@brew.test", password: PASSWORD })["user"]
      member = @admin.json("post", "/projects/#{@project}/memberships.json", membership: { user_id: user["id"], role_ids: [role] })["membership"]
      @member = member["id"] if name == "bob"
      sign_in(person(name, user["api_key"] || @admin.json("get", "/users/#{user["id"]}.json")["user"]["api_key"]))
    end

    def sign_in(person)
      person.get("/login")
      answer = person.post("/login", { "username" => person.name, "password" => PASSWORD, "back_url" => "#{@server.url}/my/page" })
      raise "#{person.name} can't sign in: #{answer.code}" unless answer.code == "302"

      person
    end

    def writer = @people.first(2).sample(random: @random)
    def words = "#{%w[mash boil cool pitch rack].sample(random: @random)} #{@random.rand(1 << 30)}"

    def new_issue(person, subject)
      person.json("post", "/issues.json", issue: { project_id: @project, subject: subject, description: "*#{words}*" })["issue"]["id"]
    end

    def create_issue = (@issues << new_issue(writer, words)) && "creates an issue"

    # Of the pages by number, two stay.
    def delete_issue
      return create_issue if @issues.size < 4

      writer.json("delete", "/issues/#{@issues.delete(@issues.drop(2).sample(random: @random))}.json")
      "deletes an issue"
    end

    def edit_issue
      writer.json("put", "/issues/#{@issues.sample(random: @random)}.json", issue: { subject: words, notes: words })
      "edits an issue"
    end

    # As a browser does, with the token of the page that was shown last.
    def edit_issue_by_form
      person = writer
      id = @issues.sample(random: @random)
      fields = IssueForm.fields(person.get("/issues/#{id}/edit").body)
      person.get("/")
      answer = person.post("/issues/#{id}", fields.merge("_method" => "patch", "issue[subject]" => words, "issue[notes]" => words))
      raise "the form of an issue is refused: #{answer.code}" unless answer.code == "302"

      # What it says of it is shown once.
      person.follow(answer)
      "edits an issue by its form"
    end

    def edit_wiki
      writer.json("put", "/projects/#{@project}/wiki/#{%w[Wiki Cellar Malt].sample(random: @random)}.json", wiki_page: { text: "h1. #{words}\n\n#{words}" })
      writer.json("put", "/projects/#{@project}/wiki/Wiki.json", wiki_page: { text: "h1. #{words}" })
      "edits the wiki"
    end

    def create_news
      writer.json("post", "/projects/#{@project}/news.json", news: { title: words, description: words })
      @news = @admin.json("get", "/projects/#{@project}/news.json?limit=100")["news"].map { |news| news["id"] }
      "writes news"
    end

    def delete_news
      return create_news if @news.size < 3

      writer.json("delete", "/news/#{@news.delete(@news.sample(random: @random))}.json")
      "deletes news"
    end

    def log_time
      entry = { issue_id: @issues.sample(random: @random), hours: 1 + @random.rand(5), activity_id: @activity, comments: words }
      @times << writer.json("post", "/time_entries.json", time_entry: entry)["time_entry"]["id"]
      "logs time"
    end

    # With an issue its times may be gone.
    def delete_time
      times = @admin.json("get", "/time_entries.json?limit=100")["time_entries"].map { |entry| entry["id"] }
      return log_time if times.size < 3

      writer.json("delete", "/time_entries/#{times.sample(random: @random)}.json")
      "deletes time"
    end

    def rename_project
      @admin.json("put", "/projects/#{@project}.json", project: { name: words, description: words })
      "renames the project"
    end

    # What bob may see and do.
    def change_rights
      @admin.json("put", "/memberships/#{@member}.json", membership: { role_ids: [@role_ids.sample(random: @random)] })
      "changes bob's rights"
    end

    def sign_in_again
      person = @people.first(3).sample(random: @random)
      person.get("/")
      raise "#{person.name} can't sign out" unless person.post("/logout", {}).code == "302"

      sign_in(person)
      "signs out and in"
    end
  end
end
