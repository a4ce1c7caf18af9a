class BreweryAdmin < AdminSection
  manages "Brewery", label: :name
  columns :name, :town, :region, :country, :founded
  search :name, :town, :region
  filters :country, :region
  fields :name, :town, :region, :country, :founded, :about
  relation :beers
end
