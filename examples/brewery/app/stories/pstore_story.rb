# A gem of its own from Ruby 4.0 on, which an application need not have.
begin
  require "pstore"
rescue LoadError
  nil
end

# Sessions in a PStore: Ruby's reads and writes the whole file in each transaction, ours the record that is touched.
class PstoreStory < Story
  self.title = "A PStore that reads what it is asked for"
  self.slow = "Ruby's PStore reads and writes its whole file in each transaction: the more sessions there are, the longer every request takes."
  self.line = "require \"paceline/pstore\"; Paceline::PStore.replace!"
  self.measured = "200 sessions of about 1 KB in a store; 15 of them read and changed, each in a transaction"

  SESSIONS = 200
  CHANGES = 15

  def ways
    @ways ||= [
      Way.new("Ruby's PStore", -> { change("ruby") }, -> { written("ruby") }),
      Way.new("Paceline::PStore", -> { change("ours") }, -> { written("ours") })
    ]
  end

  private

  def prepare
    require "paceline/pstore"
    clean_up
    raise "Ruby's PStore is a gem since Ruby 4.0: add `gem \"pstore\"` to the Gemfile to compare with it" unless defined?(::PStore)

    stock = defined?(Paceline::PStore) && ::PStore.equal?(Paceline::PStore)
    raise "PStore is Paceline's already: Paceline::PStore.replace! was called" if stock

    @stores = { "ruby" => ::PStore.new(file("ruby")), "ours" => Paceline::PStore.new(file("ours")) }
    @stores.each_value { |store| store.transaction { SESSIONS.times { |number| store["session-#{number}"] = session(number) } } }
  end

  def session(number)
    { "visits" => 0, "trail" => Array.new(20) { |step| "/beers/#{number * 7 + step}?from=the-list-of-beers" } }
  end

  def change(name)
    store = @stores.fetch(name)
    Array.new(CHANGES) do |number|
      key = "session-#{number * 9}"
      store.transaction { store[key]["visits"] += 1 }
      store.transaction(true) { store[key]["trail"].size }
    end
  end

  def written(name)
    "#{CHANGES * 2} transactions; the file has #{File.size(file(name)) / 1024} KB"
  end

  def file(name)
    folder.join("#{name}.pstore").to_s
  end

  def clean_up
    %w[ruby ours].each { |name| FileUtils.rm_f(Dir.glob("#{file(name)}*")) }
  end
end
