workers 1
threads 3, 3
preload_app!
