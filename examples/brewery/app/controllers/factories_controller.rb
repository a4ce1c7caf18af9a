# Factories, in a document store. Everything that the guide asks of it is shown on the page, with its time.
class FactoriesController < ApplicationController
  before_action { @store = FactoryStore.new }

  rescue_from FactoryStore::Away do |away|
    @reason = away.message
    render :away, status: MongoConnection.configured? ? :service_unavailable : :ok
  end

  rescue_from FactoryStore::Full do |full|
    redirect_to factories_path, alert: full.message
  end

  def index
    @energy = params[:energy].to_s if FactoryStore::ENERGIES.include?(params[:energy])
    @cities = Array(params[:cities]).grep(String)
    @count = @store.count
    @found = @store.find(energy: @energy, cities: @cities)
    @all_cities = @store.cities
    @names_by_city = @store.names_by_city
  end

  def create
    name, city = params.values_at(:name, :city).map { |value| value.to_s.strip.first(60) }
    energy = params[:energy].to_s
    return redirect_to factories_path, alert: "A factory has a name, a city and an energy." if name.empty? || city.empty? || !FactoryStore::ENERGIES.include?(energy)

    @store.insert("name" => name, "city" => city, "plant" => { "energy" => energy, "kettles" => kettles }, "products" => params[:products].to_s.split(",").map(&:strip).first(10))
    asked "#{name} is in the store."
  end

  # Each brewery's town gets a factory, so that there is something to look for.
  def fill
    energies = FactoryStore::ENERGIES.cycle
    count = @store.insert_all(Brewery.order(:id).limit(12).map do |brewery|
      { "name" => "#{brewery.town} Kettle Works", "city" => brewery.region, "plant" => { "energy" => energies.next, "kettles" => brewery.founded % 9 + 1 }, "products" => %w[kettles taps] }
    end)
    asked "#{helpers.pluralize(count, "factory")} more."
  end

  def update
    @store.update(params[:id], "plant.kettles" => kettles) ? asked("It has #{helpers.pluralize(kettles, "kettle")} now.") : gone
  end

  def destroy
    @store.remove(params[:id]) ? asked("It is gone.") : gone
  end

  def clear
    asked "#{helpers.pluralize(@store.remove_all, "factory")} removed."
  end

  private

  def kettles
    params[:kettles].to_i.clamp(0, 1000)
  end

  # The notice says what was asked of the store last.
  def asked(words)
    query = @store.queries.last
    redirect_to factories_path, notice: "#{words} (#{query.text.truncate(200)}: #{query.milliseconds.round(1)} ms)"
  end

  def gone
    redirect_to factories_path, alert: "There is no such factory any more."
  end
end
