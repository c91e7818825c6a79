def outputs_of(session, feeds):
    """`{name: output}` of a session that takes those of the feeds that it has inputs for."""
    names = [output.name for output in session.get_outputs()]
    inputs = [input_.name for input_ in session.get_inputs()]
    return dict(zip(names, session.run(names, {name: feeds[name] for name in inputs}), strict=True))
