# What can be seen and changed of breweries in /admin. The words are AdminSection's.
class BreweryAdmin < AdminSection
  manages "Brewery", label: :name
  columns :name, :town, :region, :country, :founded
  search :name, :town, :region
  filters :country, :region
  fields :name, :town, :region, :country, :founded, :about
  relation :beers
end
