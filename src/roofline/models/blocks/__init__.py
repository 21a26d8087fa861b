"""The parts a layer is made of, one kind one file: attention, latent attention, linear attention, MLP, experts …"""
