# frozen_string_literal: true

require_relative "support/shop_case"
require "paceline/native"

# Each patch in a small Rails application: the same answers, by other means.
class ShadowPatchesTest < ShopCase
  def test_unknown_and_inapplicable
    result = in_shop(<<~'RUBY')
      [patch("nonsense"), patch("free_sql", "shapes" => []), patch("free_middleware", "middleware" => "Nobody"), patch("free_view", {}),
       patch("log_level", "level" => "loud"), patch("log_level", "level" => "debug"), patch("index", "table" => "beers", "columns" => ["unknown"]),
       patch("parallel_outbound")]
    RUBY
    assert_equal ["there is no patch nonsense", "no queries are named", "the application has no middleware Nobody", "no view is named",
                  "\"loud\" is no level of a log", "the log's level is debug or higher already", "no SQLite database has a table beers with unknown",
                  "nothing answers for other servers here"], result
  end

  def test_nothing_applies_without_the_library
    code = <<~'RUBY'
      require "paceline/server/shadow/patches"
      patches = Paceline::Server::Shadow::Patches
      %w[xml xml_mini pstore pstore_copy session_store async_mail free_sql free_view index database_copy parallel_outbound cache_store].each do |name|
        patches.apply(name, { "shapes" => ["x"], "view" => "x", "table" => "x", "columns" => ["x"] }, nil)
        puts "#{name} applied"
      rescue patches::Inapplicable
        nil
      end
    RUBY
    out, status = Open3.capture2e(RbConfig.ruby, "-I#{LIB}", "-e", code)
    assert_equal [true, ""], [status.success?, out]
  end

  def test_http_install
    code = 'before = get("/prices"); [patch("http_install"), before, evidence("/prices"), patch("http_install"), ENV["PACELINE_EGRESS"]]'
    none, before, evidence, again, egress = in_shop(code)
    assert_equal [nil, before, "Paceline::HTTP.install! is called already", "off"], [none, evidence["response"], again, egress]
    assert_equal ["paceline", 3, 0], evidence["outbound"].first.values_at("client", "calls", "connections")
  end

  # Faraday, open-uri and others load it in the first request that calls.
  def test_http_install_before_the_application_has_loaded_net_http
    code = <<~'RUBY'
      require "paceline/server/shadow/patches"
      puts defined?(Net::HTTP).inspect
      Paceline::Server::Shadow::Patches.apply("http_install", {}, nil)
      require "open-uri"
      puts Paceline::Server::Shadow::Patches::HttpInstall.installed?
    RUBY
    out, status = Open3.capture2e({ "RUBYOPT" => nil }, RbConfig.ruby, "-I#{LIB}", "-e", code)
    assert_equal [true, "nil\ntrue\n"], [status.success?, out]
  end

  def test_xml
    before, none, after, builder, again, evidence = in_shop(<<~'RUBY')
      before = get("/feed")
      [before, patch("xml"), get("/feed"), Builder::XmlMarkup.name, patch("xml"), evidence("/feed")]
    RUBY
    assert_equal [before, nil, "Paceline::XML::Builder", "Builder::XmlMarkup is Paceline's already"], [after, none, builder, again]
    assert_nil evidence["xml"]
  end

  # Redmine's API is one. One whose file holds more, and one whose file can't be loaded again, are not replaced.
  def test_xml_of_subclasses
    result = in_shop(<<~'RUBY')
      define = lambda do |file, code|
        File.write(File.join(ROOT, "app", file), code)
        require File.join(ROOT, "app", file)
      end
      define.call("guide_xml.rb", "class GuideXML < Builder::XmlMarkup\n  def tag!(name, *rest) = super(:\"guide_\#{name}\", *rest)\nend")
      define.call("more.rb", "module More\n  class Feed < Builder::XmlMarkup; end\nend")
      define.call("once.rb", "class Once < Builder::XmlMarkup\n  raise if $once\n  $once = true\nend")
      write = -> { [::GuideXML, ::More::Feed, ::Once].map { |one| one.new.beer("Export", id: 1).to_s } }
      before = write.call
      [before, patch("xml"), write.call, [::GuideXML, ::More::Feed, ::Once].map { |one| one.ancestors.include?(Paceline::XML::Builder) }]
    RUBY
    before, none, after, replaced = result
    assert_equal [before, nil, [true, false, false]], [after, none, replaced]
    assert_includes before.first, "guide_beer"
  end

  def test_xml_mini
    before, none, after, backend, again, evidence = in_shop(<<~'RUBY')
      before = get("/order")
      [before, patch("xml_mini"), get("/order"), Paceline::Server::Shadow::Facts.collect(root: ROOT, environment: "test")[:xml_mini], patch("xml_mini"), evidence("/order")]
    RUBY
    assert_equal [before, nil, "Paceline", "XmlMini's backend is Paceline's already"], [after, none, backend, again]
    assert_nil evidence["xml_mini"]
  end

  PSTORE = <<~'RUBY'
    file = File.join(ROOT, "db/guide.pstore")
    before = [File.binread(file), File.stat(file).mtime.to_f]
    require "yaml/store"
    list = File.join(ROOT, "db/list.yml")
    File.write(list, "---\na: 1\n")
    none = patch(NAME)
    answers = [get("/guide"), get("/guide")]
    yaml = YAML::Store.new(list).then { |store| [store.transaction { store["b"] = store["a"] + 1 }, store.path.start_with?(TMPDIR), File.read(list)] }
    [none, answers.map { |one| one[1] }, before == [File.binread(file), File.stat(file).mtime.to_f], Dir.children(File.join(ROOT, "db")).grep(/pstore/),
     PStore.name, GUIDE.path.start_with?(TMPDIR), yaml, File.binread(GUIDE.path, 2) == "\x04\b".b]
  RUBY

  def test_pstore_copy
    result = in_shop(PSTORE.sub("NAME", '"pstore_copy"'))
    assert_equal [nil, ["1000 1", "1000 2"], true, %w[guide.pstore], "PStore", true, [2, true, "---\na: 1\n"], true], result
  end

  def test_pstore
    skip "there is no store without the native part" unless Paceline::Native
    result = in_shop(PSTORE.sub("NAME", '"pstore"'))
    assert_equal [nil, ["1000 1", "1000 2"], true, %w[guide.pstore], "Paceline::PStore", true, [2, true, "---\na: 1\n"], false], result
  end

  # Its entries are read from one file, and what an application's own store has stays as it is. `fetch` has the same results.
  def test_cache_store
    skip "there is no store without the native part" unless Paceline::Native
    elsewhere, none, values, files = in_shop(<<~'RUBY')
      elsewhere = patch("cache_store")
      folder = File.join(ROOT, "cache")
      Rails.cache = ActiveSupport::Cache::FileStore.new(folder)
      Rails.cache.write("price", [1, "Pils"])
      Rails.cache.write("price", 2, namespace: "de")
      Rails.cache.write("old", "x", expires_in: 1)
      files = -> { Dir[File.join(folder, "**/*")].select { |path| File.file?(path) }.sort.map { |path| [path, File.stat(path).mtime.to_f] } }
      before = files.call
      none = patch("cache_store")
      read = -> { [Rails.cache.read("price"), Rails.cache.read("gone"), Rails.cache.read_multi("price", "gone").values, Rails.cache.exist?("price"), Rails.cache.read("price", namespace: "de")] }
      first = read.call
      FileUtils.rm_rf(Dir[File.join(folder, "*")])
      [elsewhere, none, [first, read.call, Rails.cache.read("price").equal?(Rails.cache.read("price"))], before.size]
    RUBY
    found = [[1, "Pils"], nil, [[1, "Pils"]], true, 2]
    assert_equal ["Rails.cache is no FileStore", nil, [found, found, false], 3], [elsewhere, none, values, files], "the second time they come from the copy"
  end

  # A class that the application has made of PStore before.
  def test_pstore_of_a_subclass
    skip "there is no store without the native part" unless Paceline::Native
    none, visits, kinds, file = in_shop(<<~'RUBY')
      visits = Class.new(PStore) { def visit = transaction { self[:visits] = fetch(:visits, 0) + 1 } }
      early = visits.new(File.join(ROOT, "db/visits.pstore"))
      none = patch("pstore")
      late = visits.new(File.join(ROOT, "db/visits.pstore"))
      counts = [early.visit, late.visit, early.visit, late.transaction(true) { |store| store[:visits] }]
      counts << begin
        late.transaction { |store| store[:visits] = 100; store.abort }
        late.transaction { |store| store.transaction { nil } }
      rescue PStore::Error => e
        e.message
      end
      [none, counts << late.transaction(true) { late[:visits] }, [early, late].map { |one| one.is_a?(PStore) }, File.exist?(File.join(ROOT, "db/visits.pstore"))]
    RUBY
    assert_equal [nil, [1, 2, 3, 3, "nested transaction", 3], [false, false], false], [none, visits, kinds, file]
  end

  def test_log_level
    none, lines, level = in_shop(<<~'RUBY')
      get("/twice")
      none = patch("log_level", "level" => "info")
      [none, evidence("/twice")[:log].slice(:level, :debug_lines), ActiveRecord::Base.logger.level]
    RUBY
    assert_equal [nil, { "level" => "info", "debug_lines" => 0 }, 1], [none, lines, level]
  end

  # Of a fragment that is kept the second rendering is the first one's.
  def test_settings_of_rails_that_keep_fragments_and_templates
    already, none, before, after = in_shop(<<~'RUBY')
      already = %w[perform_caching template_caching].map { |name| patch(name) }
      ActionController::Base.perform_caching = false
      ActionView::Base.cache_template_loading = false
      view = ->(text) { Class.new(ActionController::Base).renderer.render(inline: "<% cache('news') do %><%= text %><% end %>", locals: { text: text }) }
      before = %w[a b].map(&view)
      none = %w[perform_caching template_caching].map { |name| patch(name) }
      [already, none, before, %w[c d].map(&view) << ActionView::Base.cache_template_loading]
    RUBY
    assert_equal ["Rails keeps fragments already", "Rails keeps templates already"], already
    assert_equal [[nil, nil], %w[a b], ["c", "c", true]], [none, before, after]
  end

  def test_one_write
    before, none, after, empty = in_shop('before = get("/pieces"); none = patch("one_write"); [before, none, get("/pieces"), get("/nowhere")[2]]')
    assert_equal [200, before[1], 1, nil, 5], [after[0], after[1], after[2], none, before[2]]
    assert_operator empty, :<=, 1
  end

  def test_async_mail
    none, deliveries, answer, jobs, looked = in_shop(<<~'RUBY')
      jobs = []
      ActiveSupport::Notifications.subscribe("enqueue.active_job") { |*, payload| jobs << payload[:job].arguments }
      none = patch("async_mail")
      answer = get("/mail")
      before = ActionMailer::Base.deliveries.size
      Postman.hello.tap(&:subject).deliver_now
      [none, before, answer[1], jobs.map { |arguments| arguments.first(3) }, ActionMailer::Base.deliveries.size]
    RUBY
    assert_equal [nil, 0, "sent", [%w[Postman hello deliver_now]] * 2, 1], [none, deliveries, answer, jobs, looked]
  end

  def test_free_sql
    none, first, later, counts, all = in_shop(<<~'RUBY')
      get("/index")
      # The list of beers, and the first of the repeated queries.
      shape = 'SELECT "breweries".* FROM "breweries" WHERE "breweries"."id" = ? LIMIT ?'
      none = patch("free_sql", "shapes" => [shape])
      first = replay("/index")
      counts = []
      later = nil
      counts << queries { later = replay("/index") }.size
      # What was changed in one replay is as it was in the next.
      shadow.begin_replay("/other")
      counts << queries { Beer.find(1).brewery.name }.size
      counts << queries { shadow.begin_replay("/other"); Beer.find(1).brewery.name << " changed" }.size
      [none, first, later, counts, 2.times.map { shadow.begin_replay("/other"); Beer.find(1).brewery.name }]
    RUBY
    assert_equal [nil, first, [2, 2, 1], ["Brewery 0", "Brewery 0"]], [none, later, counts, all]
  end

  # Those of another shape, with or without values, are made as ever.
  def test_free_sql_leaves_others
    none, names, counts = in_shop(<<~'RUBY')
      none = patch("free_sql", "shapes" => ['SELECT "beers"."name" FROM "beers" WHERE "beers"."style" = ?'])
      ask = -> { [Beer.where(style: "style 1").pluck(:name), Beer.where(style: "style 2").pluck(:name).size, Beer.count, Beer.find(3).name, Beer.exists?(4)] }
      names = []
      counts = 3.times.map { shadow.begin_replay("/x"); queries { names << ask.call }.size }
      [none, names.uniq.size, counts]
    RUBY
    assert_equal [nil, 1, [5, 4, 4]], [none, names, counts]
  end

  # One query for all of them needs neither the relations of the others nor their SQL: what is built for a list of five is what is built for one.
  def test_free_sql_builds_no_relations_for_what_is_kept
    none, answers, later, single = in_shop(<<~'RUBY')
      built = Hash.new(0)
      count = ->(target, method) do
        target.prepend(Module.new { define_method(method) { |*arguments, &block| built[method] += 1; super(*arguments, &block) } })
      end
      count.call(Arel::SelectManager, :initialize)
      count.call(ActiveRecord::PredicateBuilder, :build_from_hash)
      Note.belongs_to :beer
      Beer.has_many :notes
      Beer.scope :called, ->(name) { where(name: name) }
      ask = lambda do |limit|
        Beer.order(:id).limit(limit).map do |beer|
          [beer.notes.count, beer.notes.exists?, beer.notes.where(text: "good").sum(:beer_id), Note.where(beer_id: beer.id).pluck(:text), Brewery.find(beer.brewery_id).name,
           Note.find_by(beer_id: beer.id)&.text, Beer.called(beer.name).first.name, Note.where(beer: beer).map(&:id), beer.notes.where(text: "good").to_a.map { |note| note.beer.equal?(beer) }]
        end
      end
      ask.call(1)
      shapes = queries { built.clear; ask.call(1) }.map { |sql| Paceline::Server::Shadow::Evidence::SqlShape.of(sql, "SQLite") }
      single = built.dup
      none = patch("free_sql", "shapes" => shapes.drop(1))
      answers = 3.times.map { shadow.begin_replay("/x"); built.clear; ask.call(5) }
      [none, answers, built, single]
    RUBY
    assert_equal [nil, 1, [1, true, 1, ["good"], "Brewery 0", "good", "Beer 0", [2], [true]]], [none, answers.uniq.size, answers.last.first]
    assert_equal 5, answers.last.size
    single.each { |method, times| assert_operator later.fetch(method, 0), :<=, times, method }
  end

  # Looking for what is kept is no work of the application: the cure does not do it.
  def test_what_a_what_if_does_for_itself_is_no_cost
    costs = in_shop(<<~'RUBY')
      File.write(File.join(ROOT, "app/reader.rb"), "module Reader\n  def self.read(path) = 50.times { YAML.load_file(path) }\nend\n")
      require File.join(ROOT, "app/reader.rb")
      File.write(File.join(ROOT, "db/list.yml"), "- x\n")
      counted = lambda do |id, &ask|
        3.times { shadow.begin_replay(id) && ask.call }
        shadow.begin_replay(id)
        made = -GC.stat(:total_allocated_objects)
        cost = Paceline::Server::Shadow::Cost.of(&ask)
        [cost.allocated, made + GC.stat(:total_allocated_objects)]
      end
      patch("free_sql", "shapes" => ['SELECT "breweries".* FROM "breweries" WHERE "breweries"."name" = ? LIMIT ?'])
      sql = counted.call("/x") { 50.times { Brewery.find_by(name: "nobody") } }
      patch("free_line", "at" => "app/reader.rb:2", "method" => "load_file")
      [sql, counted.call("/y") { Reader.read(File.join(ROOT, "db/list.yml")) }]
    RUBY
    costs.each { |counted, made| assert_operator counted * 3, :<, made * 2 }
  end

  # What the application changes, or asks for within a scope or with another relation, is its own.
  def test_free_sql_leaves_relations_that_are_not_determined_by_their_calls
    none, answers = in_shop(<<~'RUBY')
      shapes = ["SELECT COUNT(*) FROM \"beers\" WHERE \"beers\".\"style\" = ?", "SELECT \"beers\".\"name\" FROM \"beers\" WHERE \"beers\".\"style\" = ?"]
      none = patch("free_sql", "shapes" => shapes)
      ask = lambda do |style|
        names = Beer.where(style: style).pluck(:name)
        [Beer.where(style: style).count, Beer.where(id: 1).scoping { Beer.where(style: style).count }, Beer.where(style: style).merge(Beer.where(id: 1)).count,
         Beer.where(style: style).tap { |beers| beers.where!(id: 1) }.count, names.size, names.each { |name| name << "!" }.first, names.clear]
      end
      [none, 3.times.map { shadow.begin_replay("/x"); ["style 0", "style 1"].map(&ask) }]
    RUBY
    assert_equal [nil, [[[4, 1, 1, 1, 4, "Beer 0!", []], [4, 0, 0, 0, 4, "Beer 1!", []]]]], [none, answers.uniq]
  end

  # An index makes each query of a shape quicker, and not only the repeated ones.
  def test_free_sql_of_all_that_have_a_shape
    none, counts = in_shop(<<~'RUBY')
      none = patch("free_sql", "shapes" => ['SELECT "beers"."name" FROM "beers" WHERE "beers"."style" = ?'], "all" => true)
      ask = -> { [Beer.where(style: "style 1").pluck(:name), Beer.where(style: "style 2").pluck(:name), Beer.count] }
      [none, 3.times.map { shadow.begin_replay("/x"); queries { ask.call }.size }]
    RUBY
    assert_equal [nil, [3, 1, 1]], [none, counts]
  end

  # The third replay gets what the second one got, and the application may change it. Elsewhere the method is called.
  def test_free_line
    none, answers, elsewhere, slept = in_shop(<<~'RUBY')
      list = File.join(ROOT, "db/list.yml")
      File.write(File.join(ROOT, "app/reader.rb"), "module Reader\n  def self.read(path)\n    sleep 0; YAML.load_file(path)\n  end\nend\n")
      require File.join(ROOT, "app/reader.rb")
      none = patch("free_line", "at" => "app/reader.rb:3", "method" => "load_file")
      answers = 4.times.map do |number|
        File.write(list, "- #{number}\n- x\n")
        shadow.begin_replay("/x")
        [Reader.read(list) << "more", Reader.read(list)]
      end
      elsewhere = YAML.load_file(list)
      # A method in C, which is private.
      Paceline::Server::Shadow::Patches.apply("free_line", { "at" => "app/reader.rb:3", "method" => "sleep" }, shadow)
      slept = []
      Kernel.prepend(Module.new { define_method(:sleep) { |*time| slept << time; super(*time) } })
      4.times { shadow.begin_replay("/y"); Reader.read(list) }
      [none, answers, elsewhere, slept.size]
    RUBY
    assert_nil none
    assert_equal [0, 1, 1, 1].map { |number| [[number, "x", "more"], [number, "x"]] }, answers
    assert_equal [3, "x"], elsewhere
    assert_equal 2, slept
  end

  def test_free_line_that_does_not_call
    result = in_shop(<<~'RUBY')
      [patch("free_line", "at" => "app/reader.rb:3"), patch("free_line", "at" => "app/shop.rb:1", "method" => "load_file"), shadow.begin_replay("/x"),
       begin
         shadow.begin_replay("/x")
       rescue Paceline::Server::Shadow::Patches::Inapplicable => e
         e.message
       end]
    RUBY
    assert_equal ["no line and no method are named", nil, true, "app/shop.rb:1 does not call load_file"], result
  end

  # The method around a line that works in a block: a private one, one of a module, and none.
  def test_free_method
    none, answers, made, message = in_shop(<<~'RUBY')
      File.write(File.join(ROOT, "app/adder.rb"), <<~TEXT)
        class Adder
          COUNT = [0]
          def sum(list) = "\#{added(list)} \#{Adder.twice(3)}"
          def self.twice(number)
            COUNT[0] += 1
            number * 2
          end

          private

          def added(list)
            list.sum do |number|
              COUNT[0] += 1
              number + 1
            end
          end
        end
        START = 7
      TEXT
      load File.join(ROOT, "app/adder.rb")
      none = ["app/adder.rb:13", "app/adder.rb:6"].map { |at| patch("free_method", "at" => at) }
      answers = 4.times.map { |number| shadow.begin_replay("/x") && Adder.new.sum([number, number]) }
      patch("free_method", "at" => "app/adder.rb:17")
      message = 2.times.map do
        shadow.begin_replay("/y")
      rescue Paceline::Server::Shadow::Patches::Inapplicable => e
        e.message
      end
      [none, answers, Adder::COUNT, message.last]
    RUBY
    assert_equal [[nil, nil], ["2 6", "4 6", "4 6", "4 6"], [6], "app/adder.rb:17 is in no method"], [none, answers, made, message]
  end

  def test_free_view
    none, first, later, views = in_shop(<<~'RUBY')
      none = patch("free_view", "view" => "app/views/beers/_row.html.erb")
      first = replay("/index")
      [none, first, replay("/index"), (shadow.begin_replay("/index"); observe("/index")[:views].map { |view| view[:name] })]
    RUBY
    assert_equal [nil, first], [none, later]
    refute_includes views, "app/views/beers/_row.html.erb"
    assert_includes views, "app/views/beers/index.html.erb"
  end

  def test_free_records
    none, first, later, queries = in_shop(<<~'RUBY')
      at = evidence("/counted")[:records].first[:at]
      none = patch("free_records", "model" => "Beer", "at" => at)
      first, later = replay("/counted"), replay("/counted")
      [none, first, later, (shadow.begin_replay("/counted"); observe("/counted")[:sql].size)]
    RUBY
    assert_equal [nil, [200, "200", 1], first, 0], [none, first, later, queries]
  end

  # The application may need what it puts into the environment.
  def test_free_middleware
    before, none, first, after, slow = in_shop(<<~'RUBY')
      slow = -> { (e = env("/twice")) && [shadow.app.call(e)[1].key?("X-Slow"), e["shop.pace"]] }
      before = slow.call
      none = patch("free_middleware", "middleware" => "SlowThing")
      first, after = Array.new(2) { shadow.begin_replay("/twice") && slow.call }
      [before, none, first, [after, get("/twice")], evidence("/twice")[:middleware].map { |one| one[:name] }]
    RUBY
    assert_equal [[true, "slow"], nil, [true, "slow"], [[false, "slow"], [200, "Beer 0", 1]]], [before, none, first, after]
    assert_includes slow, "ActionDispatch::Executor"
  end

  DATABASE = <<~'RUBY'
    file = File.join(ROOT, "db/shop.sqlite3")
    # Something that is only in the write-ahead log yet.
    other = SQLite3::Database.new(file)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("INSERT INTO beers (name, style, brewery_id) VALUES ('Late', 'style 1', 1)")
    before = File.binread(file)
    none = patch(NAME, "table" => "beers", "columns" => ["style"])
    found = evidence("/style?style=style+1")
    Beer.create!(name: "Only in the copy", style: "style 1", brewery_id: 1)
    [none, found[:response][1], found[:sql].first[:scan], before == File.binread(file), other.get_first_value("SELECT count(*) FROM beers"), Beer.count,
     ActiveRecord::Base.connection.select_value("PRAGMA journal_mode")]
  RUBY

  def test_database_copy
    result = in_shop(DATABASE.sub("NAME", '"database_copy"'))
    assert_equal [nil, "Beer 1,Beer 51,Beer 101,Beer 151,Late", { "table" => "beers", "columns" => ["style"] }, true, 201, 202, "wal"], result
  end

  def test_index
    result = in_shop(DATABASE.sub("NAME", '"index"'))
    assert_equal [nil, "Beer 1,Beer 51,Beer 101,Beer 151,Late", nil, true, 201, 202, "wal"], result
  end

  def test_pstore_without_the_native_part
    skip "it is here" if Paceline::Native
    assert_match(/native part/, in_shop('patch("pstore")'))
  end
end
