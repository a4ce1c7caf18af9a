require "mongo_connection"

# The factories that make what breweries need, as documents: each has a plant within it, and any number of products. Keeps what it asked of the store, to show it.
class FactoryStore
  ENERGIES = %w[wood gas electricity].freeze
  MAX = 500
  # By name: without a store its library is not loaded.
  AWAY = %w[Mongo::Error::NoServerAvailable Mongo::Error::SocketError Mongo::Error::SocketTimeoutError].freeze
  # One question to the store, as Ruby's driver is asked it.
  Query = Struct.new(:text, :milliseconds)

  # The store does not answer.
  class Away < StandardError; end
  # There are MAX factories.
  class Full < StandardError; end

  attr_reader :queries

  def initialize
    @queries = []
  end

  def count
    ask("count") { |factories| factories.count }
  end

  # Those of this energy, which is a field within a field, and in one of these cities.
  def find(energy: nil, cities: [])
    filter = {}
    filter["plant.energy"] = energy if energy.present?
    filter["city"] = { "$in" => cities } if cities.any?
    ask("find(#{filter.inspect}).sort(\"name\" => 1)") { |factories| factories.find(filter).sort("name" => 1).limit(MAX).to_a }
  end

  def cities
    ask("distinct(\"city\")") { |factories| factories.distinct("city") }.sort
  end

  # {city => [name, ...]}. Map-reduce once did this; it is gone from MongoDB 5 on, and an aggregation does it in all of them.
  def names_by_city
    pipeline = [{ "$group" => { "_id" => { "city" => "$city", "name" => "$name" } } }, { "$sort" => { "_id" => 1 } }]
    ask("aggregate(#{pipeline.inspect})") { |factories| factories.aggregate(pipeline).to_a }.map { |row| row["_id"] }
      .group_by { |id| id["city"] }.transform_values { |ids| ids.map { |id| id["name"] } }
  end

  # Returns its id. Raises Full.
  def insert(factory)
    make_room(1)
    ask("insert_one(#{factory.inspect})") { |factories| factories.insert_one(factory).inserted_id }
  end

  def insert_all(all)
    make_room(all.size)
    ask("insert_many([...])") { |factories| factories.insert_many(all).inserted_count }
  end

  # Sets fields of one, also fields within fields, and leaves the others. False if it is gone.
  def update(id, fields)
    ask("update_one({\"_id\" => ...}, \"$set\" => #{fields.inspect})") { |factories| factories.update_one({ "_id" => key(id) }, "$set" => fields).matched_count == 1 }
  end

  def remove(id)
    ask("delete_one(\"_id\" => ...)") { |factories| factories.delete_one("_id" => key(id)).deleted_count == 1 }
  end

  def remove_all
    ask("delete_many") { |factories| factories.delete_many.deleted_count }
  end

  private

  def ask(text)
    raise Away, "MONGO_SERVER is not set" unless MongoConnection.configured?

    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield(MongoConnection["factories"]).tap do
      @queries << Query.new(text, (Process.clock_gettime(Process::CLOCK_MONOTONIC) - started) * 1000)
    end
  rescue StandardError => e
    raise unless AWAY.include?(e.class.name)

    raise Away, e.message
  end

  def make_room(more)
    raise Full, "#{MAX} factories are enough for a demo: remove some." if count + more > MAX
  end

  # What is no id is nobody's.
  def key(id)
    BSON::ObjectId.from_string(id)
  rescue BSON::ObjectId::Invalid
    nil
  end
end
